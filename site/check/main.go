// Command check reads the pages of a site, and fails if a link to another page, an image or an anchor leads nowhere, or if
// no link leads to a page. It does not follow links to other hosts. With -browser, it also searches the site for some
// words, as a reader does, and fails if the search finds nothing, or something that leads nowhere.
//
//	go run ./check public
//	go run ./check -browser chromium public
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	browser := flag.String("browser", "", "search in this `program`, such as chromium; empty does not search")
	words := flag.String("search", "resource version", "search for these `words`")
	flag.Parse()
	if flag.NArg() != 1 {
		return errors.New("usage: check [-browser PROGRAM] [-search WORDS] DIR")
	}
	site := os.DirFS(flag.Arg(0))
	links, err := check(site)
	if err != nil {
		return err
	}
	fmt.Printf("%d links lead somewhere\n", links)
	if *browser == "" {
		return nil
	}
	dom, err := open(*browser, site, "/?q="+url.QueryEscape(*words))
	if err != nil {
		return err
	}
	hits, err := checkSearch(site, dom)
	if err == nil {
		fmt.Printf("a search for %q finds %d sections\n", *words, hits)
	}
	return err
}

var (
	link   = regexp.MustCompile(`<(?:a|img|link|script)\s[^>]*?(?:href|src)=("[^"]*"|[^\s>]+)`)
	anchor = regexp.MustCompile(`\sid=("[^"]*"|[^\s>]+)`)
)

// check returns the number of links within the site, and an error that names those that lead nowhere.
func check(site fs.FS) (links int, err error) {
	pages, err := read(site)
	if err != nil {
		return 0, err
	}
	var wrong []error
	linked := map[string]bool{"index.html": true, "404.html": true}
	for name, content := range pages {
		for _, match := range link.FindAllStringSubmatch(content, -1) {
			to, err := url.Parse(strings.Trim(match[1], `"`))
			if err == nil && (to.Scheme != "" || to.Host != "") {
				continue
			}
			links++
			if err == nil {
				err = leadsTo(site, pages, name, to)
				linked[path.Join(path.Dir(name), to.Path)] = true
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", name, match[1], err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if !linked[name] && (path.Base(name) != "index.html" || !linked[path.Dir(name)]) {
			wrong = append(wrong, fmt.Errorf("%s: no link leads there: add it to order in hugo.toml", name))
		}
	}
	return links, errors.Join(wrong...)
}

// leadsTo returns an error if a link of a page leads nowhere.
func leadsTo(site fs.FS, pages map[string]string, from string, to *url.URL) error {
	file := from
	if to.Path != "" {
		file = path.Join(path.Dir(from), to.Path)
		if strings.HasPrefix(to.Path, "/") {
			return errors.New("the path is absolute, so it works at one address only")
		}
	}
	info, err := fs.Stat(site, file)
	if err == nil && info.IsDir() {
		file = path.Join(file, "index.html")
		_, err = fs.Stat(site, file)
	}
	if err != nil {
		return err
	}
	if to.Fragment == "" {
		return nil
	}
	for _, match := range anchor.FindAllStringSubmatch(pages[file], -1) {
		if strings.Trim(match[1], `"`) == to.Fragment {
			return nil
		}
	}
	return fmt.Errorf("%s has no such anchor", file)
}

// read returns the pages of a site.
func read(site fs.FS) (pages map[string]string, err error) {
	pages = map[string]string{}
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		content, err := fs.ReadFile(site, name)
		pages[name] = string(content)
		return err
	})
	if err == nil && len(pages) == 0 {
		err = errors.New("the site has no pages")
	}
	return pages, err
}

// open serves the site, opens an address of it in a browser, and returns the page as the browser shows it.
func open(browser string, site fs.FS, address string) (dom string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: http.FileServerFS(site), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() { err = errors.Join(err, server.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "site")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+profile,
		"--virtual-time-budget=10000", "--dump-dom", "http://"+listener.Addr().String()+address).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", browser, err)
	}
	return string(out), nil
}

var results = regexp.MustCompile(`(?s)<ol id="found".*?</ol>`)

// checkSearch returns the number of results in the first page, and an error that names those that lead nowhere.
func checkSearch(site fs.FS, dom string) (hits int, err error) {
	pages, err := read(site)
	if err != nil {
		return 0, err
	}
	var wrong []error
	for _, match := range link.FindAllStringSubmatch(results.FindString(dom), -1) {
		to, err := url.Parse(strings.Trim(match[1], `"`))
		if err == nil {
			hits++
			to.Path = strings.TrimPrefix(to.Path, "/") // the browser shows absolute addresses
			err = leadsTo(site, pages, "index.html", to)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("result %s: %w", match[1], err))
		}
	}
	if hits == 0 {
		return 0, errors.New("the search finds nothing")
	}
	return hits, errors.Join(wrong...)
}
