// Package lease holds a Lease of coordination.k8s.io: package leader the one that its replicas share, and package shard
// one for each replica.
//
//	Timing   the durations of a Config, with the names of client-go's leaderelection
//	Record   the Lease on the server: read it, write it, and survive conflicts and lost responses
//	Term     how long this process holds it: from the first renewal to its loss, by the clocks of this process
//
// A Term sends nothing, and a Record knows no clock of its holder. Their callers decide when to write, and what a loss
// ends. They differ in this: a candidate of package leader waits until a Lease is free, and renews at a fixed pace; a
// replica of package shard always has its own Lease, and writes it also when its claims change.
package lease
