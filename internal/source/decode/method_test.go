package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chooser has a field that points into another one.
type chooser struct {
	Items  []string
	Chosen *string // one of Items
}

func (c *chooser) UnmarshalJSON(raw []byte) error {
	var v struct {
		Items  []string
		Chosen int
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	c.Items, c.Chosen = v.Items, &v.Items[v.Chosen]
	return nil
}

type withChooser struct {
	metav1.ObjectMeta `json:"metadata"`
	In                chooser   `json:"in"`
	List              []chooser `json:"list"`
}

// A value that a method made is taken over from the version before as a whole or not at all, since its fields may refer
// to each other.
// Guarantees: D5
func TestFieldsThatAMethodMadeStayTogether(t *testing.T) {
	typ, err := TypeOf(reflect.TypeFor[*withChooser]())
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(typ, false)
	decode := func(chosen int, from Origin) *withChooser {
		in := fmt.Sprintf(`{"Items":["x","y"],"Chosen":%d}`, chosen)
		raw := fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":"%d"},"in":%s,"list":[%[2]s]}`, chosen, in)
		obj, err := d.Decode(JSON, raw, from)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*withChooser)
	}
	before := decode(0, Origin{})
	adopted := decode(1, Origin{})
	d.Adopt(before, adopted)
	for how, obj := range map[string]*withChooser{
		"decoded after another version": decode(1, Origin{Before: before}),
		"with marks":                    decode(1, Origin{Before: before, Made: true}),
		"adopted":                       adopted,
	} {
		for _, c := range append(obj.List, obj.In) {
			if c.Chosen != &c.Items[1] {
				t.Errorf("%s: Chosen is not the second of Items", how)
			}
		}
	}
}

// The embedded values that the next type shares between its objects.
var (
	sharedKind = &metav1.TypeMeta{Kind: "Widget", APIVersion: "v1"}
	sharedMeta = &metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
)

type sharesMetadata struct {
	*metav1.TypeMeta
	*metav1.ObjectMeta
}

func (s *sharesMetadata) UnmarshalJSON([]byte) error {
	s.TypeMeta, s.ObjectMeta = sharedKind, sharedMeta
	return nil
}

// Kind, apiVersion and managedFields are dropped from memory that the decoder made, and stay in memory that a method of
// the type returned: other objects may have it, too.
// Guarantees: D5
func TestMetadataThatAMethodMadeIsNotWritten(t *testing.T) {
	var done sync.WaitGroup
	for range 2 { // with the race detector, writes of equal values show, too
		done.Go(func() {
			typ, err := TypeOf(reflect.TypeFor[*sharesMetadata]())
			if err != nil {
				t.Error(err)
				return
			}
			for range 2 {
				if _, err := NewDecoder(typ, false).Decode(JSON, []byte(`{"metadata":{"name":"a"}}`), Origin{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if sharedKind.Kind != "Widget" || sharedMeta.ManagedFields == nil {
		t.Errorf("the shared metadata are %+v, %+v", sharedKind, sharedMeta)
	}
}
