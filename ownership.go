package informer

import "fmt"

// Ownership says whether a key belongs to this replica of a program. [Queue.Own] uses it.
type Ownership uint8

const (
	// KeyForeign keys belong to another replica. A queue drops them.
	KeyForeign Ownership = iota
	// KeyAwaited keys are about to belong to this replica. A queue keeps them, and does not hand them out.
	KeyAwaited
	// KeyOwned keys belong to this replica.
	KeyOwned
)

// String returns "Foreign", "Awaited" or "Owned".
func (o Ownership) String() string {
	switch o {
	case KeyForeign:
		return "Foreign"
	case KeyAwaited:
		return "Awaited"
	case KeyOwned:
		return "Owned"
	}
	return fmt.Sprintf("Ownership(%d)", uint8(o))
}
