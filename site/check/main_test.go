package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLinksThatLeadNowhereAreNamed(t *testing.T) {
	site := fstest.MapFS{
		"index.html":      {Data: []byte(`<h1 id="a b">x</h1><a href="page/#top">x</a><a href=page/#bottom>x</a><a href="#a%20b">x</a>`)},
		"page/index.html": {Data: []byte(`<h1 id=top>x</h1><a href="../">x</a><img src="../none.png"><a href="https://example.com/#x">x</a><a href="/page/">x</a>`)},
	}
	links, err := check(site)
	if links != 6 {
		t.Errorf("%d links, want 6", links)
	}
	for _, want := range []string{"page/#bottom", "none.png", "/page/"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	if err != nil && strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("more than 3 errors: %v", err)
	}
	if _, err := check(fstest.MapFS{}); err == nil {
		t.Error("no error for an empty site")
	}
}
