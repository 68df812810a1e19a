//go:build assert

package informer

const asserting = true
