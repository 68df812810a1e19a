package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// markersOf returns the markers in lines.
func markersOf(lines ...string) markers {
	group := &ast.CommentGroup{}
	for _, line := range lines {
		group.List = append(group.List, &ast.Comment{Text: "// +" + line})
	}
	return parseMarkers(token.NewFileSet(), group)
}

// The markers of genclient restrict the verbs of a client as they do for client-gen. lister-gen looks at list only, and
// noVerbs does not matter to it.
func TestVerbs(t *testing.T) {
	for lines, want := range map[string]struct{ client, lister string }{
		"genclient":         {"get list watch update", "get list watch update"},
		"genclient:noVerbs": {"", "get list watch update"},
		"genclient:noVerbs genclient:onlyVerbs=get,list":              {"", "get list"},
		"genclient:readonly":                                          {"get list watch", "get list watch"},
		"genclient:onlyVerbs=get,list":                                {"get list", "get list"},
		"genclient:onlyVerbs=get genclient:onlyVerbs=list,watch":      {"get list watch", "get list watch"},
		"genclient:skipVerbs=list":                                    {"get watch update", "get watch update"},
		"genclient:skipVerbs=watch,get":                               {"list update", "list update"},
		"genclient:onlyVerbs=get,list,watch genclient:skipVerbs=list": {"get watch", "get watch"},
		"genclient:noStatus genclient:nonNamespaced":                  {"get list watch update", "get list watch update"},
	} {
		for listers, want := range map[bool]string{false: want.client, true: want.lister} {
			has, err := markersOf(strings.Fields(lines)...).verbs(listers)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, verb := range []string{"get", "list", "watch", "update"} {
				if has(verb) {
					got = append(got, verb)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, listers %v: got %v, want %s", lines, listers, got, want)
			}
		}
	}
	for line, want := range map[string]string{
		"genclient=false":            "+genclient=false: the marker takes no value",
		"genclient:onlyVerbs=got":    `"got" is not a verb`,
		"genclient:skipVerbs=get,":   `"" is not a verb`,
		"genclient:nonnamespaced":    "unknown marker",
		"genclient:noStatuses":       "unknown marker",
		"genclientset:nonNamespaced": "unknown marker",
	} {
		if _, err := markersOf(line).verbs(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// The arguments of kubebuilder's markers are found in each way that people write them.
func TestKubebuilderArgs(t *testing.T) {
	for line, want := range map[string]map[string]string{
		"kubebuilder:resource":                            {},
		"kubebuilder:resource:path=widgets,scope=Cluster": {"path": "widgets", "scope": "Cluster"},
		"kubebuilder:resource: path=w, scope=Cluster":     {"path": "w", "scope": "Cluster"},
		"kubebuilder:resource:scope:=Cluster":             {"scope": "Cluster"},
		"kubebuilder:resource:path=w;":                    {"path": "w"},
		`kubebuilder:resource:path="w",shortName={a,b}`:   {"path": "w", "shortName": "{a,b}"},
		`kubebuilder:resource:path="a,b",scope=Cluster`:   {"path": "a,b", "scope": "Cluster"},
		"kubebuilder:resourceful:path=w":                  {},
		"kubebuilder:object:root=true":                    {},
	} {
		got, err := markersOf(line).kubebuilderArgs("resource")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	if _, err := markersOf("kubebuilder:resource:Cluster").kubebuilderArgs("resource"); err == nil || !strings.Contains(fmt.Sprint(err), "want name=value") {
		t.Error(err)
	}
}
