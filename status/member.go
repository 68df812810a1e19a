package status

// MemberState is what a member of a set of informers does; see packages fleet and kinds.
//
//	Waiting --> Starting --> Synced --> Ended
//	   |           |            ^         ^
//	   |           +-> Unsynced-+---------+
//	   +----------------------------------+
type MemberState uint8

const (
	// MemberWaiting: the member has not started. The set does not run, enough others are in their first list, a removed
	// member with the same name has not ended, or the member has no usable configuration.
	MemberWaiting MemberState = iota
	// MemberStarting: the member is in its first list.
	MemberStarting
	// MemberUnsynced: the first list has failed, or takes long. The member goes on, and others start meanwhile.
	MemberUnsynced
	// MemberSynced: the store has the whole collection. The state stays the same when a watch breaks.
	MemberSynced
	// MemberEnded: the member has ended by itself, or because the set has stopped.
	MemberEnded
)

// MemberStates are all states of members, in their order.
func MemberStates() []MemberState {
	return []MemberState{MemberWaiting, MemberStarting, MemberUnsynced, MemberSynced, MemberEnded}
}

// String returns "Waiting", "Starting", "Unsynced", "Synced" or "Ended".
func (s MemberState) String() string {
	return nameOf(s, "MemberState", "Waiting", "Starting", "Unsynced", "Synced", "Ended")
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (s MemberState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
