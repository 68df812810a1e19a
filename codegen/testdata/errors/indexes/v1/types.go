// +groupName=indexes.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +informer:index
// +informer:index=Alone
// +informer:index=a b,path=spec.node
// +informer:index=Two,path=spec.node,func=Two
// +informer:index=Arg,field=x
// +informer:index=Nowhere,path=spec.nowhere
// +informer:index=NoList,path=spec.node[*]
// +informer:index=List,path=spec.list
// +informer:index=First,path=spec.list[0]
// +informer:index=Map,path=spec.numbers['a']
// +informer:index=NotComparable,path=spec.deep
// +informer:index=Any,path=spec.any
// +informer:index=Hidden,path=spec.hidden
// +informer:index=NoFunc,func=Missing
// +informer:index=BadFunc,func=Bad
// +informer:index=BadMethod,func=BadMethod
// +informer:index=unexported,func=unexported
// +informer:indexed=Typo
// +informer:index=Node,path=spec.node
type Thing struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec"`
}

// +genclient
// +informer:index=Node,path=spec.node
type Twice struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec"`
}

// +genclient
// +informer:index
// +informer:index=Alone
// +informer:index=Nowhere,path=spec.nowhere
// +informer:index=NoList,path=spec.node[*]
// +informer:index=List,path=spec.list
// +informer:index=First,path=spec.list[0]
// +informer:index=Map,path=spec.numbers['a']
// +informer:index=NotComparable,path=spec.deep
// +informer:index=Any,path=spec.any
// +informer:index=Hidden,path=spec.hidden
// +informer:index=NoFunc,func=Missing
// +informer:index=BadFunc,func=Bad
// +informer:index=BadMethod,func=BadMethod
// +informer:index=unexported,func=unexported
type Many struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec"`
}

type Spec struct {
	// +informer:index=Node
	Node    string         `json:"node"`
	List    []string       `json:"list"`
	Numbers map[int]string `json:"numbers"`
	Deep    Deep           `json:"deep"`
	Any     any            `json:"any"`
	Hidden  secret         `json:"hidden"`
	// +informer:index=Path,path=x
	Wrong string `json:"wrong"`
}

type Deep struct{ List []string }

type secret string

func Bad(t *Thing) {}

func (m *Many) BadMethod(int) string { return "" }

func unexported(*Many) string { return "" }
