package heapsize

// Objects are measured in runs of neighbors, which share memory as all do: pods of one workload follow each other.
const (
	Runs      = 16
	RunLength = 8
)

// Sample returns the places, in order, of the objects to measure of n objects: runs of neighbors from all over them, or
// all if there are not more.
func Sample(n int) (places []int) {
	if n <= Runs*RunLength {
		for i := range n {
			places = append(places, i)
		}
		return places
	}
	for i := range Runs {
		from := i * (n - RunLength) / (Runs - 1)
		for j := range RunLength {
			places = append(places, from+j)
		}
	}
	return places
}
