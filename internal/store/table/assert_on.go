//go:build assert

package table

const Asserting = true
