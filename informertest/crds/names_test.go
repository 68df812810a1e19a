package crds_test

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/informertest"
)

type names = apiextensionsv1.CustomResourceDefinitionNames

// another returns a definition of a group with names of its own, except those that are set.
func (w *world) another(group string, set names) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	crd := w.definition()
	crd.Name, crd.Spec.Group = "others."+group, group
	crd.Spec.Names = names{Plural: "others", Singular: "other", Kind: "Other", ListKind: "OtherList"}
	if set.Singular != "" {
		crd.Spec.Names.Singular = set.Singular
	}
	if set.ListKind != "" {
		crd.Spec.Names.ListKind = set.ListKind
	}
	if set.Kind != "" {
		crd.Spec.Names.Kind = set.Kind
	}
	crd.Spec.Names.ShortNames = set.ShortNames
	return crd
}

const accepted, notAccepted = "Established=True:InitialNamesAccepted", "Established=False:NotAccepted"

func TestEachNameCanConflict(t *testing.T) {
	for want, set := range map[string]names{
		"NamesAccepted=False:SingularConflict":   {Singular: "widget"},
		"NamesAccepted=False:ShortNamesConflict": {ShortNames: []string{"free", "wd"}},
		"NamesAccepted=False:KindConflict":       {Kind: "Widget"},
		"NamesAccepted=False:ListKindConflict":   {ListKind: "WidgetList"},
	} {
		withWidgets(t, func(t *testing.T, w *world) {
			w.must(w.submit(w.another("example.com", set)))
			equal(t, "conditions", w.conditions("others.example.com"), want, notAccepted)
			w.must(w.submit(w.another("example.org", set))) // names matter within a group
			equal(t, "conditions in another group", w.conditions("others.example.org"), "NamesAccepted=True:NoConflicts", accepted)
		})
	}
}

// A name that was accepted stays so, even if a resource that the program registers has it, too.
func TestAcceptedNamesStay(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		gadgets := widgets
		gadgets.Resource = "gadgets"
		informertest.Register[*unstructured.Unstructured](w.server, informertest.Resource{GroupVersionResource: gadgets, Kind: "Widget",
			ShortNames: []string{"wd"}})
		crd := w.definition()
		crd.Labels = map[string]string{"l": "m"}
		w.must(w.submit(crd))
		equal(t, "conditions", w.conditions(crd.Name), "NamesAccepted=True:NoConflicts", accepted)
	})
}

// A definition that is established stays so when it asks for a name that another has. It may use its own former names
// for something else.
func TestNamesChange(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		w.must(w.submit(w.another("example.com", names{ShortNames: []string{"o"}})))
		crd := w.definition()
		crd.Spec.Names.ShortNames = []string{"o"}
		w.must(w.submit(crd))
		equal(t, "conditions", w.conditions(crd.Name), "NamesAccepted=False:ShortNamesConflict", accepted)
		_, err := w.in(widgets).List(t.Context(), metav1.ListOptions{})
		w.must(err)
		crd.Spec.Names.Singular, crd.Spec.Names.ShortNames = "wd", []string{"widget"}
		w.must(w.submit(crd))
		equal(t, "conditions", w.conditions(crd.Name), "NamesAccepted=True:NoConflicts", accepted)
		if lines := w.discovered(); !slices.Contains(lines, "v1 widgets wd Widget true [widget] [all]") {
			t.Errorf("discovery: %q", lines)
		}
	})
}
