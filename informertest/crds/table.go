package crds

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/watchcache"
)

// table returns what makes the Tables of a version of a definition: its additionalPrinterColumns, or Name and Age if it
// has none, which is nil.
func table(version apiextensionsv1.CustomResourceDefinitionVersion) (*watchcache.Table, error) {
	if len(version.AdditionalPrinterColumns) == 0 {
		return nil, nil
	}
	convertor, err := tableconvertor.New(version.AdditionalPrinterColumns)
	if err != nil {
		return nil, err
	}
	empty, err := convertor.ConvertToTable(context.Background(), &unstructured.UnstructuredList{}, nil)
	if err != nil {
		return nil, err
	}
	return &watchcache.Table{
		Columns: empty.ColumnDefinitions,
		Cells: func(obj metav1.Object) []any {
			one, err := convertor.ConvertToTable(context.Background(), obj.(*unstructured.Unstructured), nil)
			if err != nil || len(one.Rows) != 1 {
				return make([]any, len(empty.ColumnDefinitions)) // it can make a row of every unstructured object
			}
			return one.Rows[0].Cells
		},
	}, nil
}
