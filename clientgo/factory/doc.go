// Package factory makes informers of this project for the generated code of any clientset, such as that of a custom
// resource. Package informers does so for client-go's own clientset.
package factory
