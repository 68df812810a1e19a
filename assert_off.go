//go:build !assert

package informer

// asserting says that every state of a store is checked before readers see it. The tag assert sets it.
const asserting = false
