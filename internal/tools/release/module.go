package main

import (
	"context"
	"path"
	"regexp"
	"strings"
)

const rootPath = "github.com/typedinformer/informer"

// module is a module of this repository, by its folder. The root is ".".
type module string

// published are the modules that users import, or run as a tool. All others serve this repository only: they have no
// tag, and no documentation tells users to get them.
var published = []module{".", "clientgo", "codegen", "crcache", "informerotel", "informerprom",
	"informertest/crds"}

func (m module) path() string { return path.Join(rootPath, string(m)) }

func (m module) tag(v version) string { return path.Join(string(m), v.String()) }

// modFiles returns the names of all go.mod files, and of go.newest.mod files, which have other versions.
func modFiles(ctx context.Context, root string) ([]string, error) {
	names, err := output(ctx, root, "git", "ls-files", "*.mod")
	return strings.Fields(names), err
}

// required finds each require directive for a module of this repository: the text before its version, and the version.
var required = regexp.MustCompile(`(?m)^(\s*(?:require\s+)?` + regexp.QuoteMeta(rootPath) + `(?:/\S+)?\s+)(v\S+)`)

// requireVersion returns the content of a go.mod file with one version of all modules of this repository.
func requireVersion(mod []byte, v version) []byte {
	return required.ReplaceAll(mod, []byte("${1}"+v.String()))
}
