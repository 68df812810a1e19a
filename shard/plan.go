package shard

import "github.com/typedinformer/informer"

// planVersion names the rules of plan. Replicas with other rules do not share slots.
const planVersion = "1"

// plan returns, for each slot, the index of the replica that should have it. The order of the replicas does not matter.
// Without replicas, each index is -1.
//
// It uses rendezvous hashing: for each slot, every replica has a weight, and the largest weight wins. So a joining
// replica takes its slots from all others equally, and a leaving one leaves its slots to all others. By chance, one
// replica could get twice as many slots as another. Therefore no replica gets more than [bound] slots: any further slot
// goes to the next largest weight.
func plan(replicas []string, slots int) []int {
	hashes := make([]uint64, len(replicas))
	for i, name := range replicas {
		hashes[i] = informer.HashOf(name)
	}
	most := bound(slots, len(replicas))
	load := make([]int, len(replicas))
	owners := make([]int, slots)
	for slot := range owners {
		owner, weight := -1, uint64(0)
		for i, hash := range hashes {
			if load[i] == most {
				continue
			}
			if w := mix(hash, slot); owner < 0 || w > weight || w == weight && replicas[i] < replicas[owner] {
				owner, weight = i, w
			}
		}
		if owners[slot] = owner; owner >= 0 {
			load[owner]++
		}
	}
	return owners
}

// bound is the largest number of slots of a replica: 1.1 times the mean, rounded up. With a smaller bound, more slots
// would move whenever a replica joins or leaves.
func bound(slots, replicas int) int {
	if replicas == 0 {
		return 0
	}
	return (slots*11 + replicas*10 - 1) / (replicas * 10)
}

// mix returns the weight of a replica for a slot, by the finalizer of SplitMix64.
func mix(hash uint64, slot int) uint64 {
	x := hash ^ (uint64(slot)+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
