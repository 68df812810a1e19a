// Package generated has no code. Its tests use generated code, that below testdata of codegen and the factory in this
// folder. They are a module of their own because of its imports.
package generated

// The types, the clientset and the listers are those of k8s.io/sample-controller, by client-gen and lister-gen.
//go:generate go run -C ../../../codegen . -C internal/generated -output-dir externalversions -factory k8s.io/sample-controller/pkg/generated/clientset/versioned k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1
