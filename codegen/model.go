package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// api is one version of an API group: what one generated package is about. Sources make apis (source_go.go from Go
// packages, source_crd.go from manifests), the printer (print.go) writes them out, and neither knows of the other.
type api struct {
	Group, Version string
	Dir            string // of the generated package, below the output directory: "apps/v1"
	From           string // where the kinds come from, for comments: a Go import path, or "the CRDs of " a group
	Kinds          []kind // sorted by name
	Decls          []*decl
	Complete       bool // Decls are all of the types that the group version has, and have all their fields
}

// kind is a type of objects.
type kind struct {
	Name       string  // such as "NetworkPolicy"
	Type       goType  // the Go type, a struct
	Plural     string  // of name, as in the names of Go: "NetworkPolicies"
	Resource   string  // in the URL: "networkpolicies"
	Namespaced bool    // false for a cluster-scoped resource
	Stored     bool    // this is the version that objects are stored in
	CanGet     bool    // the server answers get, so lister-gen would write a lister
	Labeled    bool    // the Go type has GetLabels, which listers need
	Indexes    []index // sorted by name
	List       string  // the type of lists, if Decls has it
	object     types.Type
	pos        token.Position
}

// index is a typed index of a kind.
type index struct {
	Name string // of the method without By: "Node"
	What string // where the keys come from, for the comment: "spec.nodeName"
	Key  goType
	// How the keys are computed: by a function of the api's package or a method of its type, or else by steps from the
	// object.
	Fn       goType     // "«example.com/api/v1».NodesOf", or the name of a method; empty if there are steps
	IsMethod bool       // fn is a method
	Gives    fnResult   // what fn returns
	Steps    []pathStep // from the object to the key
	pos      token.Position
	mark     marker
}

// fnResult tells the shapes of key functions apart.
type fnResult int

const (
	oneKey   fnResult = iota // func(T) K
	maybeKey                 // func(T) (K, bool)
	manyKeys                 // func(T) []K
)

// pathStep is one step of an index's path.
type pathStep struct {
	kind  stepKind
	field string // the Go field of a fieldStep; the key of an entryStep
}

type stepKind int

const (
	fieldStep stepKind = iota // .field
	derefStep                 // through a pointer; nil ends the path
	eachStep                  // each element of a slice, array or map
	entryStep                 // the entry of a map; there may be none
)

// goType is a type expression. The packages in it are written as their paths in guillemets, for which the printer puts
// in what it imports them as: "«k8s.io/api/core/v1».PodPhase". A type of the generated package itself has none.
type goType string

// qualify returns the goType of a type of the package with that path.
func qualify(path, name string) goType { return goType("«" + path + "»." + name) }

// sort makes the output independent of the order in which things were found.
func (a *api) sort() {
	slices.SortFunc(a.Kinds, func(x, y kind) int { return cmp.Compare(x.Name, y.Name) })
	for i := range a.Kinds {
		slices.SortFunc(a.Kinds[i].Indexes, func(x, y index) int { return cmp.Compare(x.Name, y.Name) })
	}
}

// GroupVersion is as in apiVersion: "v1" or "apps/v1".
func (a *api) GroupVersion() string { return path.Join(a.Group, a.Version) }

// Namespaced tells whether any kind is.
func (a *api) Namespaced() bool {
	return slices.ContainsFunc(a.Kinds, func(k kind) bool { return k.Namespaced })
}

// check returns what cannot be generated: names that clash, or that are no names.
func (a *api) check() error {
	var errs errorList
	names := map[string]string{} // declared ones, with what they are for
	resources := map[string]string{}
	for _, k := range a.Kinds {
		if other := resources[k.Resource]; other != "" {
			errs.add(k.pos, k.Name, "", "the resource %s is that of %s too: name one of them by +resourceName=", k.Resource, other)
		}
		resources[k.Resource] = k.Name
		if !isResourceName(k.Resource) {
			errs.add(k.pos, k.Name, "", "%q is no name of a resource", k.Resource)
		}
		for _, name := range k.declaredNames() {
			if names[name] != "" {
				errs.add(k.pos, k.Name, "", "it needs the name %s, and so does %s", name, names[name])
			}
			names[name] = k.Name
		}
		for i, x := range k.Indexes {
			if i > 0 && k.Indexes[i-1].Name == x.Name {
				errs.add(x.pos, k.Name, x.mark.String(), "there is another index By%s at %s", x.Name, position(k.Indexes[i-1].pos))
			}
		}
	}
	return errs.err()
}

// declaredNames are those that a package with types of its own has for all of them.
func (a *api) declaredNames() []string {
	return []string{"Set", "NewSet", "GroupVersion", "AddToScheme"}
}

// declaredNames are those of what is written for a kind, beside its type.
func (k *kind) declaredNames() []string {
	return []string{
		k.Name + "Resource", "New" + k.Name + "Informer", k.Name + "Lister", "New" + k.Name + "Lister", k.Name + "NamespaceLister",
		k.Name + "ListerExpansion", k.Name + "NamespaceListerExpansion",
	}
}

// has tells whether there is a kind of that name.
func (a *api) has(name string) bool {
	return slices.ContainsFunc(a.Kinds, func(k kind) bool { return k.Name == name })
}

// addIndexes adds the indexes of -index. A version in which the kind has no such field goes without.
func (a *api) addIndexes(flags []*indexFlag) {
	for i := range a.Kinds {
		k := &a.Kinds[i]
		for _, flag := range flags {
			if flag.kind != k.Name {
				continue
			}
			x := index{Name: flag.name, What: cleanPath(flag.path), pos: k.pos, mark: marker{name: "informer:index", value: flag.name, has: true}}
			err := x.resolve(k.object)
			if err == nil && !k.Labeled {
				err = errors.New("indexes belong to the lister, which needs metadata.labels")
			}
			if err != nil {
				flag.failed.add(k.pos, k.Name, "-index", "%s", err)
				continue
			}
			flag.used = true
			k.Indexes = append(k.Indexes, x)
		}
	}
	a.sort()
}

// checkDirs returns an error if two apis would be written to one directory.
func checkDirs(apis []*api) error {
	seen := map[string]*api{}
	for _, a := range apis {
		if other := seen[a.Dir]; other != nil {
			return fmt.Errorf("%s and %s would both be written to %s: give one of them +groupGoName, or generate them in runs of their own, with an -output-dir each", other.From, a.From, a.Dir)
		}
		seen[a.Dir] = a
	}
	return nil
}

var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

func isResourceName(name string) bool { return resourceName.MatchString(name) }

// errorList collects errors that name file, line, type and marker.
type errorList []string

func (l *errorList) add(pos token.Position, typeName, mark, format string, args ...any) {
	text := position(pos) + ": "
	if typeName != "" {
		text += "type " + typeName + ": "
	}
	if mark != "" {
		text += mark + ": "
	}
	*l = append(*l, text+fmt.Sprintf(format, args...))
}

// position is pos for messages, with the file relative to the current directory if it is below.
func position(pos token.Position) string {
	if dir, err := os.Getwd(); err == nil {
		if name, ok := strings.CutPrefix(pos.Filename, dir+string(filepath.Separator)); ok {
			pos.Filename = name
		}
	}
	pos.Column = 0
	return pos.String()
}

// addMarker adds the error of a marker.
func (l *errorList) addMarker(typeName string, err error) {
	if bad := (*markerError)(nil); errors.As(err, &bad) {
		l.add(bad.mark.pos, typeName, bad.mark.String(), "%s", bad.text)
	} else {
		*l = append(*l, err.Error())
	}
}

func (l errorList) err() error {
	if len(l) == 0 {
		return nil
	}
	return errors.New(strings.Join(l, "\n"))
}
