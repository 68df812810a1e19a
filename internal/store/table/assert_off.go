//go:build !assert

package table

// Asserting reports whether a store checks its invariants before each publication. The build tag assert sets it.
const Asserting = false
