package copied

// InformersWithStorage returns the source of a package that is like clientgo/informers, with storage set in each
// factory: the fields of a clientgo Options, in Go. They may use the packages os and informer.
func InformersWithStorage(storage string) string {
	return `package informers

import (
	"os"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/informers"
	"k8s.io/client-go/kubernetes"
)

var (
	_ = os.Getenv
	_ informer.Layout
)

type (
	SharedInformerFactory = informers.SharedInformerFactory
	SharedInformerOption  = informers.SharedInformerOption
	GenericInformer       = informers.GenericInformer
)

var (
	WithCustomResyncConfig = informers.WithCustomResyncConfig
	WithTweakListOptions   = informers.WithTweakListOptions
	WithNamespace          = informers.WithNamespace
	WithTransform          = informers.WithTransform
	WithInformerName       = informers.WithInformerName
)

func NewSharedInformerFactory(client kubernetes.Interface, resync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync)
}

func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync,
		append(options, informers.WithStorage(informers.Options{` + storage + `}))...)
}
`
}
