package watchcache

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// Table says how the objects of a [Cache] become the rows of a metav1.Table, which kubectl get requests
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables).
type Table struct {
	// Columns are the columns. The first one usually contains the name of the object.
	Columns []metav1.TableColumnDefinition
	// Cells returns the cells of an object, one for each column. The object may also be that of a bookmark, which has only
	// a resource version. Cells must not write to the object, and may be called concurrently.
	Cells func(obj metav1.Object) []any
	// Conditions returns the conditions of the row of an object, such as metav1.RowCompleted. Nil means that rows have
	// none. Conditions has the same rules as Cells.
	Conditions func(obj metav1.Object) []metav1.TableRowCondition
}

var metadataDocs = metav1.ObjectMeta{}.SwaggerDoc()

// defaultTable has the columns of a custom resource whose definition names none.
var defaultTable = &Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metadataDocs["name"]},
		{Name: "Age", Type: "date", Description: metadataDocs["creationTimestamp"]},
	},
	Cells: func(obj metav1.Object) []any {
		return []any{obj.GetName(), metatable.ConvertToHumanReadableDateType(obj.GetCreationTimestamp())}
	},
}

// tableFormat returns the format of the Table that a request asks for.
func tableFormat(r *http.Request) (format, error) {
	options := &metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))}
	if errs := validation.ValidateTableOptions(options); len(errs) > 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0]))
	}
	switch options.IncludeObject {
	case metav1.IncludeNone:
		return formatBareTable, nil
	case metav1.IncludeObject:
		return formatObjectTable, nil
	}
	return formatTable, nil
}

// table encodes the elements as a metav1.Table. f is a format of Tables.
func (c *Cache[T]) table(f format, list metav1.ListMeta, headers bool, items []*element[T]) ([]byte, error) {
	table := metav1.Table{ListMeta: list, Rows: make([]metav1.TableRow, len(items))}
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	if headers {
		table.ColumnDefinitions = c.config.Table.Columns
	}
	for i, el := range items {
		table.Rows[i].Cells = c.config.Table.Cells(el.obj)
		if conditions := c.config.Table.Conditions; conditions != nil {
			table.Rows[i].Conditions = conditions(el.obj)
		}
		included, err := c.included(f, el)
		if err != nil {
			return nil, err
		}
		table.Rows[i].Object = runtime.RawExtension{Raw: included}
	}
	return json.Marshal(table)
}

// included returns the object in the row of an element, or nil for none.
func (c *Cache[T]) included(f format, el *element[T]) ([]byte, error) {
	include := formatMetadataJSON
	switch _, endsInitial := el.obj.GetAnnotations()[metav1.InitialEventsAnnotationKey]; {
	case f == formatObjectTable:
		include = formatJSON
	case f == formatBareTable && !endsInitial: // clients need the annotation, whatever they ask for
		return nil, nil
	}
	b, err := c.bytes(el, include)
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	out := bufio.NewWriter(&whole)
	c.codec.writeObject(out, include, b)
	out.Flush()
	return whole.Bytes(), nil
}

// rowOf returns an element as a Table with one row.
func (c *Cache[T]) rowOf(f format, headers bool, el *element[T]) ([]byte, error) {
	return c.table(f, metav1.ListMeta{ResourceVersion: el.obj.GetResourceVersion()}, headers, []*element[T]{el})
}

// writeTable writes a list as a Table, or returns the error to respond with.
func (c *Cache[T]) writeTable(w http.ResponseWriter, f format, list listMeta, items []*element[T]) error {
	b, err := c.table(f, list.ListMeta, true, items)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", f.contentType())
	w.Write(append(b, '\n')) // an error is the client's
	return nil
}
