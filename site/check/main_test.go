package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLinksThatLeadNowhereAreNamed(t *testing.T) {
	site := fstest.MapFS{
		"index.html":      {Data: []byte(`<h1 id="a b">x</h1><a href="page/#top">x</a><a href=page/#bottom>x</a><a href="#a%20b">x</a>`)},
		"page/alone.html": {Data: []byte("no link leads here")},
		"page/index.html": {Data: []byte(`<h1 id=top>x</h1><a href="../">x</a><img src="../none.png"><a href="https://example.com/#x">x</a><a href="/page/">x</a>`)},
	}
	links, err := check(site)
	if links != 6 {
		t.Errorf("%d links, want 6", links)
	}
	for _, want := range []string{"page/#bottom", "none.png", "/page/", "page/alone.html: no link leads there"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	if err != nil && strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("more than 4 errors: %v", err)
	}
	if _, err := check(fstest.MapFS{}); err == nil {
		t.Error("no error for an empty site")
	}
}

func TestResultsOfASearchLeadSomewhere(t *testing.T) {
	site := fstest.MapFS{"index.html": {Data: []byte(`<h1 id=top>x</h1>`)}}
	page := func(results string) string {
		return `<a href="none.html">x</a><ol id="found">` + results + `</ol><a href="none.html">x</a>`
	}
	for results, want := range map[string]string{
		"": "finds nothing",
		`<li><a href="http://127.0.0.1:1/index.html#top">x</a></li>`: "",
		`<li><a href="/index.html#top">x</a><a href="/b.html">x</a>`: "b.html",
		`<li><a href="/index.html#bottom">x</a>`:                     "#bottom",
	} {
		if _, err := checkSearch(site, page(results)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", results, err)
		}
	}
}
