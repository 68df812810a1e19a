package v1

import (
	"k8s.io/apimachinery/pkg/labels"

	partsv1 "github.com/typedinformer/informer/codegen/testdata/compat/parts/v1"
)

type GadgetListerExpansion interface {
	Twins() ([]*partsv1.Gadget, error)
}

type GadgetNamespaceListerExpansion interface{}

func (s *gadgetLister) Twins() ([]*partsv1.Gadget, error) {
	return s.Gadgets("").List(labels.Everything())
}
