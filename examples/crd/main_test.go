package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	want := `made in the north: car
made in the north: sledge
has wheels: bicycle
has wheels: car
2 ordered
error: widgets.shop.example.com "plane" not found
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
