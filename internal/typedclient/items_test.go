package typedclient

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The error of a list wraps every failure, but its text does not grow with them.
func TestErrorOfManyObjectsIsShort(t *testing.T) {
	var items Items[string]
	if items.Add("a", nil); items.Err() != nil {
		t.Errorf("error %v", items.Err())
	}
	var last error
	for i := range 1000 {
		last = fmt.Errorf("object %d", i)
		items.Add(nil, last)
	}
	err := items.Err()
	if text := err.Error(); !strings.HasPrefix(text, "object 0; object 1; ") || !strings.HasSuffix(text, "object 9; and 990 more") {
		t.Errorf("text %q", text)
	}
	if len(items.Objects) != 1 || !errors.Is(err, last) {
		t.Errorf("%d objects, error %v", len(items.Objects), err)
	}
}
