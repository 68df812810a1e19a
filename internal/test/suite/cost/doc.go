// Package cost tests what reading a store costs: allocations, and the time of its writer, and what an idle informer
// costs: memory. Its tests run without the race detector, which has costs of its own.
package cost
