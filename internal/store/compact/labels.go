package compact

import (
	"encoding/binary"
	"maps"
	"slices"
	"unique"
)

// Labels is a set of labels that takes little memory: equal sets of different objects are one. It implements
// labels.Labels.
type Labels struct{ text unique.Handle[string] }

// The text of a Labels has the key and the value of each label, in the order of the keys. Each string follows its
// length.
func newLabels(labels map[string]string) Labels {
	if len(labels) == 0 {
		return Labels{}
	}
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		text = appendLabel(text, key, labels[key])
	}
	return labelsOf(text)
}

// appendLabel appends a label to a text. The keys must come in their order.
func appendLabel[S string | []byte](text []byte, key, value S) []byte {
	for _, s := range []S{key, value} {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	return text
}

// labelsOf returns the Labels with that text.
func labelsOf(text []byte) Labels {
	if len(text) == 0 {
		return Labels{}
	}
	return Labels{unique.Make(string(text))}
}

// is reports whether s has that text.
func (s Labels) is(text []byte) bool {
	if s == (Labels{}) {
		return len(text) == 0
	}
	return s.text.Value() == string(text)
}

// equal reports whether s has exactly these labels.
func (s Labels) equal(labels map[string]string) bool {
	n := 0
	for key, value := range s.all {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
		n++
	}
	return n == len(labels)
}

// all yields the labels in the order of the keys.
func (s Labels) all(yield func(key, value string) bool) {
	if s == (Labels{}) {
		return
	}
	for text := s.text.Value(); text != ""; {
		var key, value string
		key, text = cutLabel(text)
		value, text = cutLabel(text)
		if !yield(key, value) {
			return
		}
	}
}

// cutLabel returns the first string of the text of a Labels, and the rest.
func cutLabel(text string) (first, rest string) {
	n, shift := 0, 0
	for text[0] >= 0x80 {
		n |= int(text[0]&0x7f) << shift
		text, shift = text[1:], shift+7
	}
	n |= int(text[0]) << shift
	return text[1 : 1+n], text[1+n:]
}

// Lookup returns the value of the label key.
func (s Labels) Lookup(key string) (value string, ok bool) {
	for have, value := range s.all {
		if have == key {
			return value, true
		}
	}
	return "", false
}

// Has reports whether there is a label key.
func (s Labels) Has(key string) bool {
	_, ok := s.Lookup(key)
	return ok
}

// Get returns the value of the label key, or "".
func (s Labels) Get(key string) string {
	value, _ := s.Lookup(key)
	return value
}
