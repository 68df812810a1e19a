package crds

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/watchcache"
)

// table returns the Table with the additionalPrinterColumns of a version. If the version has none, it returns nil,
// which means Name and Age.
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
			row, err := convertor.ConvertToTable(context.Background(), obj.(*unstructured.Unstructured), nil)
			if err != nil || len(row.Rows) != 1 {
				return make([]any, len(empty.ColumnDefinitions)) // cannot happen for an unstructured object
			}
			return row.Rows[0].Cells
		},
	}, nil
}
