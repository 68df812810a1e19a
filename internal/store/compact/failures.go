package compact

import (
	"maps"
	"sync"
	"weak"
)

// Failures has the objects that readers could not decode, as long as anything else holds them. It is safe for
// concurrent use. The exported fields must be set before the first object is packed.
type Failures struct {
	Error  func(p *Object, cause error) error // makes the error of an object; nil for the cause itself
	Report func(error)                        // called once for each object with its error, by its reader; nil for none

	mu      sync.Mutex // protects the fields below
	objects map[weak.Pointer[Object]]struct{}
	room    int // add drops the objects that nothing holds when there are more
}

func (f *Failures) errorOf(p *Object, cause error) error {
	if f.Error == nil {
		return cause
	}
	return f.Error(p, cause)
}

func (f *Failures) add(p *Object, failed error) {
	f.mu.Lock()
	if f.objects == nil {
		f.objects = map[weak.Pointer[Object]]struct{}{}
	}
	f.objects[weak.Make(p)] = struct{}{}
	if len(f.objects) > f.room {
		maps.DeleteFunc(f.objects, func(p weak.Pointer[Object], _ struct{}) bool { return p.Value() == nil })
		f.room = max(16, 2*len(f.objects))
	}
	f.mu.Unlock()
	if f.Report != nil {
		f.Report(failed)
	}
}

// In returns the objects that get returns for their keys.
func (f *Failures) In(get func(namespace, name string) *Object) (all []*Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for known := range f.objects {
		if p := known.Value(); p != nil && get(p.namespace, p.name) == p {
			all = append(all, p)
		}
	}
	return all
}
