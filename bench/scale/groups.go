package main

// groups are the sizes of the tables of Leases. leaseBytes is an event with one Lease, which TestLeaseBytes measures:
// it depends on how many slots a replica claims, and how many of them lie side by side.
var groups = []struct {
	replicas   float64
	slots      int
	leaseBytes float64
}{
	{3, 256, 1177},
	{10, 256, 996},
	{30, 256, 939},
	{30, 1024, 1060},
	{100, 1024, 956},
	{300, 1024, 926},
	{300, 4096, 985},
}
