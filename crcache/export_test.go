package crcache

import "sigs.k8s.io/controller-runtime/pkg/cache"

// Stopped returns a channel that is closed when an informer with one configuration has stopped.
func Stopped(i cache.Informer) <-chan struct{} { return i.(*kind).parts[0].done }
