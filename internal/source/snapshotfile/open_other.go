//go:build !unix

package snapshotfile

const nonblock = 0 // no path of a directory is a named pipe here
