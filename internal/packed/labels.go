package packed

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
		for _, s := range []string{key, labels[key]} {
			text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
		}
	}
	return Labels{unique.Make(string(text))}
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
