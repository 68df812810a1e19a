package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong combination of the flags of a factory is an error that names the flag.
func TestFactoryFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-listers x ./...":                                     "-listers needs -factory",
		"-factory example.com/client ./...":                    "-factory example.com/client does not end in /clientset/versioned: name the listers by -listers",
		"-factory x/clientset/versioned -crd a.yaml":           "excludes -crd",
		"-factory x/clientset/versioned -fields spec ./...":    "excludes -crd and -fields",
		"-factory x/clientset/versioned -compat ./...":         "excludes -compat",
		"-factory x/clientset/versioned -index A:B=spec ./...": "excludes -compat and -index",
		"-factory x/clientset/versioned -group-dir a=b ./...":  "excludes -group-dir",
		"-factory x/clientset/versioned ./...":                 "",
		"-factory x -listers y ./...":                          "",
	} {
		o, err := parseOptions(strings.Fields(args), io.Discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if err == nil && o.factory.listers != "x/listers" && o.factory.listers != "y" {
			t.Errorf("%s: listers %q", args, o.factory.listers)
		}
	}
}

// The import path of a directory follows from the go.mod in it or above, even if the directory does not exist.
func TestImportPath(t *testing.T) {
	top := t.TempDir()
	if _, err := outputDir(top).importPath(); err == nil || !strings.Contains(err.Error(), "no go.mod") {
		t.Errorf("without a go.mod: %v", err)
	}
	if err := os.WriteFile(filepath.Join(top, "go.mod"), []byte("module example.com/shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{".": "example.com/shop", "a/b": "example.com/shop/a/b"} {
		if got, err := outputDir(filepath.Join(top, dir)).importPath(); err != nil || got != want {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "go.mod"), []byte("go 1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := outputDir(top).importPath(); err == nil || !strings.Contains(err.Error(), "no module path") {
		t.Errorf("a go.mod without a path: %v", err)
	}
}

// Groups that client-gen could not distinguish, or name, are errors that say what to add.
func TestFactoryGroups(t *testing.T) {
	kinds := []kind{{Name: "Widget", CanGet: true, Labeled: true}}
	shop := &api{Group: "shop.a.com", GroupGo: "Shop", Version: "v1", Dir: "shop/v1", From: "a/shop/v1", Kinds: kinds}
	for want, apis := range map[string][]*api{
		"a/shop/v1 and b/shop/v2 would both be Shop(): add +groupGoName": {shop,
			{Group: "shop.b.com", GroupGo: "Shop", Version: "v2", Dir: "shop/v2", From: "b/shop/v2", Kinds: kinds}},
		"is not a Go identifier: add +groupGoName": {
			{Group: "my-shop.com", GroupGo: "My-shop", Version: "v1", Dir: "my-shop/v1", From: "my-shop/v1", Kinds: kinds}},
		"a/shop/v1 and b/shop/v1 would both be written to shop/v1": {shop,
			{Group: "shop.b.com", GroupGo: "ShopB", Version: "v1", Dir: "shopb/v1", From: "b/shop/v1", Kinds: kinds}},
		"a/shop/v1 and a/shop/v2 are of different groups": {shop,
			{Group: "shop.b.com", GroupGo: "ShopB", Version: "v2", Dir: "shopb/v2", From: "a/shop/v2", Kinds: kinds}},
		"no type has list, watch and get": nil,
		"internalinterfaces/v1: the path of a package must end in a group and a version": {
			{Group: "a", GroupGo: "A", Version: "v1", Dir: "internalinterfaces/v1", From: "a/internalinterfaces/v1", Kinds: kinds}},
		"must end in a group and a version": {{Group: "a", GroupGo: "A", Version: "v1", Dir: "v1", From: "v1", Kinds: kinds}},
	} {
		if _, err := factoryGroups(factoryFlags{}, "root", apis); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	unlisted := &api{Dir: "x/v1", Kinds: []kind{{Name: "NoGet", Labeled: true}}}
	groups, err := factoryGroups(factoryFlags{}, "root", []*api{shop, unlisted})
	if err != nil || len(groups) != 1 || groups[0].Versions[0].Path != "root/shop/v1" {
		t.Errorf("%v, %v", groups, err)
	}
}
