package crcache

import "sigs.k8s.io/controller-runtime/pkg/cache"

// Stopped returns a channel that is closed when an informer with one configuration has stopped.
func Stopped(i cache.Informer) <-chan struct{} { return i.(*kind).parts[0].done }

// LastDigits returns the value that the metrics show for a resource version.
func LastDigits(version string) float64 { return lastDigits(version) }
