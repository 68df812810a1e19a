package compact

import (
	"strings"
	"unique"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
)

func identityOf(obj object.Object) string { return string(obj.GetUID()) + obj.GetResourceVersion() }

// identify returns a packed with the identity and the labels of obj, but without body. It uses strings of old, if old
// is not nil: those of obj may be part of a larger string.
func identify(obj object.Object, old *Object) *Object {
	p := &Object{namespace: obj.GetNamespace(), name: obj.GetName(), uid: uint32(len(obj.GetUID())),
		version: uint32(len(obj.GetResourceVersion()))}
	if old != nil && old.namespace == p.namespace && old.name == p.name {
		p.namespace, p.name = old.namespace, old.name
	} else {
		p.namespace, p.name = unique.Make(p.namespace).Value(), strings.Clone(p.name)
	}
	if labeled, ok := obj.(interface{ GetLabels() map[string]string }); ok {
		if labels := labeled.GetLabels(); old != nil && old.labels.equal(labels) {
			p.labels = old.labels
		} else {
			p.labels = newLabels(labels)
		}
	}
	return p
}

// identifyChecked is identify for an object that was not decoded.
func identifyChecked(found *decode.Checked, old *Object) *Object {
	p := &Object{uid: uint32(len(found.UID)), version: uint32(len(found.ResourceVersion))}
	if old != nil && old.namespace == string(found.Namespace) && old.name == string(found.Name) {
		p.namespace, p.name = old.namespace, old.name
	} else {
		p.namespace, p.name = unique.Make(string(found.Namespace)).Value(), string(found.Name)
	}
	buf := rawBuffers.Get().(*[]byte)
	defer putRawBuffer(buf)
	text := (*buf)[:0]
	for key, value := range found.Labels {
		text = appendLabel(text, key, value)
	}
	*buf = text
	if old != nil && old.labels.is(text) {
		p.labels = old.labels
	} else {
		p.labels = labelsOf(text)
	}
	return p
}
