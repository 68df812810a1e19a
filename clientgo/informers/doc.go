// Package informers is a replacement for k8s.io/client-go/informers, with the same functions, options and types. A
// program that imports it instead has informers of this project:
//
//	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 10*time.Hour,
//		informers.WithStorage(informers.Options{Layout: new(informer.LayoutShared)}))
//
// Package clientgo lists the differences.
package informers
