package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// api is one version of an API group, the content of one generated package. Sources create apis (source_go.go from Go
// packages, source_crd.go from manifests), and the printer (print.go) writes them. Sources and printer do not depend on
// each other.
type api struct {
	Group, Version string
	GroupGo        string // the group in client-gen's names: "Shop" for shop.example.com
	Dir            string // of the generated package, below the output directory: "apps/v1"
	DirGiven       bool   // Dir was chosen by +groupGoName or -group-dir
	Path           string // the import path of the kinds' Go package; empty for CRDs
	From           string // the source of the kinds, for comments: a Go import path, or "the CRDs of " a group
	Kinds          []kind // sorted by name
	Decls          []*decl
	Copied         *copiedPackage // the types of the Go package that get deep copies; nil means none
	Complete       bool           // Decls are all types of the group version, with all their fields
}

// kind is a type of objects.
type kind struct {
	Name       string        // such as "NetworkPolicy"
	Type       goType        // the Go type, a struct
	Plural     string        // of Name, for Go names: "NetworkPolicies"
	Resource   string        // in the URL: "networkpolicies"
	Namespaced bool          // false for a cluster-scoped resource
	Stored     bool          // this is the storage version
	RootOnly   bool          // only +kubebuilder:object:root=true requests it, a marker that other objects have, too
	CanGet     bool          // the server supports get, so lister-gen would write a lister
	Labeled    bool          // the Go type has GetLabels, which listers need
	Indexes    []index       // sorted by name
	Lister     *clientLister // of lister-gen, with -compat and -listers
	List       string        // the list type, if Decls contains it
	object     types.Type
	pos        token.Position
}

// index is a typed index of a kind.
type index struct {
	Name string // the method without By: "Node"
	What string // the origin of the keys, for the comment: "spec.nodeName"
	Key  goType
	// Keys come from a function of the api's package, from a method of its type, or else from steps starting at the
	// object.
	Fn       goType     // "«example.com/api/v1».NodesOf", or the name of a method; empty if there are steps
	IsMethod bool       // Fn is a method
	Gives    fnResult   // the results of Fn
	Steps    []pathStep // from the object to the key
	pos      token.Position
	mark     marker
}

// fnResult is the shape of a key function.
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
	entryStep                 // an entry of a map, which may be absent
)

// goType is a type expression. It contains the import paths of packages in guillemets, "«k8s.io/api/core/v1».PodPhase",
// which the printer replaces by the names of its imports. A type of the generated package has no path.
type goType string

// qualify returns the goType of a type of the package with the import path.
func qualify(path, name string) goType { return goType("«" + path + "»." + name) }

// sort makes the output independent of the order in which things were found.
func (a *api) sort() {
	slices.SortFunc(a.Kinds, func(x, y kind) int { return cmp.Compare(x.Name, y.Name) })
	for i := range a.Kinds {
		slices.SortFunc(a.Kinds[i].Indexes, func(x, y index) int { return cmp.Compare(x.Name, y.Name) })
	}
}

// GroupVersion returns the group version as in apiVersion: "v1" or "apps/v1".
func (a *api) GroupVersion() string { return path.Join(a.Group, a.Version) }

// Namespaced reports whether any kind is namespaced.
func (a *api) Namespaced() bool {
	return slices.ContainsFunc(a.Kinds, func(k kind) bool { return k.Namespaced })
}

// check returns an error for names that clash or are invalid.
func (a *api) check() error {
	var errs errorList
	names := map[string]string{} // declared names, with their kind
	resources := map[string]string{}
	for _, k := range a.Kinds {
		if other := resources[k.Resource]; other != "" {
			errs.add(k.pos, k.Name, "", "%s also has the resource %s: name one of them by +resourceName=", other, k.Resource)
		}
		resources[k.Resource] = k.Name
		if !isResourceName(k.Resource) {
			errs.add(k.pos, k.Name, "", "%q is not a valid resource name", k.Resource)
		}
		for _, name := range k.declaredNames() {
			if names[name] != "" {
				errs.add(k.pos, k.Name, "", "%s also needs the name %s", names[name], name)
			}
			names[name] = k.Name
		}
		for i, x := range k.Indexes {
			if i > 0 && k.Indexes[i-1].Name == x.Name {
				errs.add(x.pos, k.Name, x.mark.String(), "another index By%s is at %s", x.Name,
					position(k.Indexes[i-1].pos))
			}
		}
	}
	return errs.err()
}

// declaredNames returns the names that a package with its own types declares once.
func (a *api) declaredNames() []string {
	return []string{"Set", "NewSet", "GroupVersion", "AddToScheme"}
}

// declaredNames returns the names that are declared for a kind, beside its type.
func (k *kind) declaredNames() []string {
	return []string{
		k.Name + "Resource", k.Name + "GVK", "New" + k.Name + "Informer", k.Name + "Lister", "New" + k.Name + "Lister", k.Name +
			"NamespaceLister",
		k.Name + "ListerExpansion", k.Name + "NamespaceListerExpansion",
	}
}

// has reports whether a has a kind called name.
func (a *api) has(name string) bool {
	return slices.ContainsFunc(a.Kinds, func(k kind) bool { return k.Name == name })
}

// kindNames returns the names of the kinds of apis, for messages.
func kindNames(apis []*api) string {
	names := map[string]bool{}
	for _, a := range apis {
		for _, k := range a.Kinds {
			names[k.Name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// addIndexes adds the indexes of -index. A version without the field gets no index.
func (a *api) addIndexes(flags []*indexFlag) {
	for i := range a.Kinds {
		k := &a.Kinds[i]
		for _, flag := range flags {
			if flag.kind != k.Name {
				continue
			}
			x := index{Name: flag.name, What: cleanPath(flag.path), pos: k.pos,
				mark: marker{name: "informer:index", value: flag.name, has: true}}
			err := x.resolve(k.object)
			if err == nil && !k.Labeled {
				err = errors.New("indexes are methods of the lister, which needs metadata.labels")
			}
			if err != nil {
				flag.failed.add(k.pos, k.Name+" of "+a.GroupVersion(), "-index", "%s", err)
				continue
			}
			flag.used = true
			k.Indexes = append(k.Indexes, x)
		}
	}
	a.sort()
}

var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

func isResourceName(name string) bool { return resourceName.MatchString(name) }

// errorList collects errors with file, line, type and marker.
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

// position formats pos for messages. A file below the current directory gets its relative name.
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
