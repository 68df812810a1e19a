package informertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// The limits of kube-apiserver for a JSON patch.
const (
	maxPatchOperations = 10_000
	maxPatchCopies     = 3 << 20 // the bytes that the copy operations of a patch may add
)

// applyJSONPatch applies a JSON patch (RFC 6902) to a document. Its results are those of jsonpatch.Patch.Apply, which
// kube-apiserver uses. Unlike there, the limit of copied bytes is a constant, not a global variable, and no patch
// causes a panic.
func applyJSONPatch(document []byte, patch jsonpatch.Patch) ([]byte, error) {
	root, err := decodeJSON(document)
	if err != nil {
		return nil, err
	}
	d := patchedDocument{root: root}
	for _, op := range patch {
		if err := d.apply(op); err != nil {
			return nil, err
		}
	}
	return json.Marshal(d.root)
}

// patchedDocument is a document that a JSON patch is applied to.
type patchedDocument struct {
	root   any   // of json.Unmarshal, with json.Number; no part of it has two parents
	copied int64 // the bytes that copy operations have added
}

func (d *patchedDocument) apply(op jsonpatch.Operation) error {
	kind := op.Kind()
	path, err := op.Path()
	if err != nil {
		return fmt.Errorf("%s operation: path: %w", kind, err)
	}
	switch kind {
	case "add", "replace", "test":
		value, err := decodeValue(op["value"])
		if err != nil {
			return fmt.Errorf("%s operation: value: %w", kind, err)
		}
		switch kind {
		case "add":
			return d.add(kind, path, value)
		case "replace":
			return d.replace(path, value)
		}
		return d.test(path, value)
	case "remove":
		_, err := d.remove(kind, path)
		return err
	case "move", "copy":
		from, err := op.From()
		if err != nil {
			return fmt.Errorf("%s operation: from: %w", kind, err)
		}
		take := d.remove
		if kind == "copy" {
			take = d.copyOf
		}
		value, err := take(kind, from)
		if err != nil {
			return err
		}
		return d.add(kind, path, value)
	}
	return fmt.Errorf("unexpected kind: %s", kind)
}

func (d *patchedDocument) add(kind, path string, value any) error {
	return d.edit(kind, path, func(container any, key string) (any, error) {
		switch c := container.(type) {
		case map[string]any:
			c[key] = value
			return c, nil
		case []any:
			if key == "-" {
				return append(c, value), nil
			}
			i, err := indexOf(key, len(c)+1)
			if err != nil {
				return nil, err
			}
			return slices.Insert(c, i, value), nil
		}
		return nil, jsonpatch.ErrMissing
	})
}

// replace sets a value. As in kube-apiserver, the field of an object need not exist.
func (d *patchedDocument) replace(path string, value any) error {
	if path == "" {
		d.root = value
		return nil
	}
	return d.edit("replace", path, func(container any, key string) (any, error) {
		return container, setChild(container, key, value)
	})
}

func (d *patchedDocument) remove(kind, path string) (removed any, err error) {
	err = d.edit(kind, path, func(container any, key string) (any, error) {
		switch c := container.(type) {
		case map[string]any:
			value, ok := c[key]
			if !ok {
				return nil, fmt.Errorf("no key %q: %w", key, jsonpatch.ErrMissing)
			}
			removed = value
			delete(c, key)
			return c, nil
		case []any:
			i, err := indexOf(key, len(c))
			if err != nil {
				return nil, err
			}
			removed = c[i]
			return slices.Delete(c, i, i+1), nil
		}
		return nil, jsonpatch.ErrMissing
	})
	return removed, err
}

func (d *patchedDocument) test(path string, want any) error {
	got := d.root
	if path != "" {
		var err error
		if got, err = d.get("test", path); err != nil {
			return err
		}
	}
	if !equalJSON(got, want) {
		return fmt.Errorf("testing value %s failed: %w", path, jsonpatch.ErrTestFailed)
	}
	return nil
}

func (d *patchedDocument) copyOf(kind, path string) (any, error) {
	value, err := d.get(kind, path)
	if err != nil || value == nil {
		return nil, err
	}
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if d.copied += int64(len(b)); d.copied > maxPatchCopies {
		return nil, jsonpatch.NewAccumulatedCopySizeError(maxPatchCopies, d.copied)
	}
	return decodeJSON(b)
}

// get returns the value at a path, or nil for a missing field of an object.
func (d *patchedDocument) get(kind, path string) (value any, err error) {
	err = d.edit(kind, path, func(container any, key string) (any, error) {
		var err error
		value, err = child(container, key)
		return container, err
	})
	return value, err
}

// edit applies change to the object or array that contains the value at path. key is the last element of path.
func (d *patchedDocument) edit(kind, path string, change func(container any, key string) (any, error)) error {
	_, keys, ok := strings.Cut(path, "/")
	if !ok {
		return fmt.Errorf("%s operation does not apply: doc is missing path: %q: %w", kind, path, jsonpatch.ErrMissing)
	}
	root, err := editAt(d.root, keys, change)
	if err != nil {
		return fmt.Errorf("%s operation does not apply: path %q: %w", kind, path, err)
	}
	d.root = root
	return nil
}

// keyDecoder reads an element of a path (RFC 6901).
var keyDecoder = strings.NewReplacer("~1", "/", "~0", "~")

// editAt follows keys down from container, and returns container with the change.
func editAt(container any, keys string, change func(container any, key string) (any, error)) (any, error) {
	key, rest, deeper := strings.Cut(keys, "/")
	key = keyDecoder.Replace(key)
	if !deeper {
		return change(container, key)
	}
	value, err := child(container, key)
	if err != nil {
		return nil, err
	}
	if value, err = editAt(value, rest, change); err != nil {
		return nil, err
	}
	return container, setChild(container, key, value)
}

// child returns a value in container, or nil for a missing field of an object.
func child(container any, key string) (any, error) {
	switch c := container.(type) {
	case map[string]any:
		return c[key], nil
	case []any:
		i, err := indexOf(key, len(c))
		if err != nil {
			return nil, err
		}
		return c[i], nil
	}
	return nil, jsonpatch.ErrMissing
}

// setChild sets a value in container. The field of an object need not exist.
func setChild(container any, key string, value any) error {
	switch c := container.(type) {
	case map[string]any:
		c[key] = value
		return nil
	case []any:
		i, err := indexOf(key, len(c))
		if err != nil {
			return err
		}
		c[i] = value
		return nil
	}
	return jsonpatch.ErrMissing
}

// indexOf parses the index of an element in an array of length n. As in kube-apiserver, -1 is the last element.
func indexOf(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, fmt.Errorf("value was not a proper array index: %q: %w", key, err)
	}
	index := i
	if i < 0 {
		index += n
	}
	if index < 0 || index >= n {
		return 0, fmt.Errorf("unable to access invalid index: %d: %w", i, jsonpatch.ErrInvalidIndex)
	}
	return index, nil
}

// equalJSON compares values of decodeJSON.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// decodeValue decodes the value of an operation, or returns nil if it has none.
func decodeValue(raw *json.RawMessage) (any, error) {
	if raw == nil {
		return nil, nil
	}
	return decodeJSON(*raw)
}

func decodeJSON(b []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}
