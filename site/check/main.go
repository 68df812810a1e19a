// Command check reads the pages of a site, and fails if a link to another page, an image or an anchor leads nowhere. Links to
// other hosts are not followed.
//
//	go run ./check public
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DIR")
		os.Exit(2)
	}
	links, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d links lead somewhere\n", links)
}

var (
	link   = regexp.MustCompile(`<(?:a|img|link|script)\s[^>]*?(?:href|src)=("[^"]*"|[^\s>]+)`)
	anchor = regexp.MustCompile(`\sid=("[^"]*"|[^\s>]+)`)
)

// check returns the number of links within the site, and an error that names those that lead nowhere.
func check(site fs.FS) (links int, err error) {
	pages := map[string]string{}
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		content, err := fs.ReadFile(site, name)
		pages[name] = string(content)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(pages) == 0 {
		return 0, errors.New("the site has no pages")
	}
	var wrong []error
	for name, content := range pages {
		for _, match := range link.FindAllStringSubmatch(content, -1) {
			to, err := url.Parse(strings.Trim(match[1], `"`))
			if err == nil && (to.Scheme != "" || to.Host != "") {
				continue
			}
			links++
			if err == nil {
				err = leadsTo(site, pages, name, to)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", name, match[1], err))
			}
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
