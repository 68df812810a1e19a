//go:build !assert

package informer

// asserting reports whether a store checks its invariants before each publication. The build tag assert sets it.
const asserting = false
