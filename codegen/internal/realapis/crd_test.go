package realapis

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// published are popular definitions, with the number of kinds that they define, in all versions.
var published = []struct {
	name, module, pattern string
	kinds                 int
}{
	{"argo-rollouts", "github.com/argoproj/argo-rollouts@v1.8.3", "manifests/crds/*-crd.yaml", 5},
	{"cert-manager", "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml", 6},
	{"cluster-api", "sigs.k8s.io/cluster-api@v1.14.2", "core/config/crd/bases/*.yaml", 13},
	{"cluster-api, kubeadm", "sigs.k8s.io/cluster-api@v1.14.2", "*/kubeadm/config/crd/bases/*.yaml", 4},
	{"crossplane", "github.com/crossplane/crossplane@v1.20.0", "cluster/crds/*.yaml", 16},
	{"external-secrets", "github.com/external-secrets/external-secrets@v1.3.2", "config/crds/bases/*io_*.yaml", 23},
	{"gateway-api", "sigs.k8s.io/gateway-api", "config/crd/experimental/gateway.networking.k8s.io_[^v]*.yaml", 10},
	{"istio", "istio.io/api@v1.32.0", "kubernetes/customresourcedefinitions.gen.yaml", 15},
	{"jobset", "sigs.k8s.io/jobset@v0.8.0", "config/components/crd/bases/*.yaml", 1},
	{"karpenter", "sigs.k8s.io/karpenter@v1.8.0", "pkg/apis/crds/*.yaml", 3},
	{"keda", "github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/*.yaml", 6},
	{"knative serving", "knative.dev/serving@v0.51.0", "config/core/300-resources/*.yaml", 7},
	{"kueue", "sigs.k8s.io/kueue@v0.17.0", "config/components/crd/bases/*.yaml", 11},
	{"open-cluster-management", "open-cluster-management.io/api@v1.0.0", "*/v*/*.crd.yaml", 16},
	{"prometheus-operator", "github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd-full/*.yaml", 10},
	{"tekton", "github.com/tektoncd/pipeline@v1.0.0", "config/300-crds/*.yaml", 8},
	{"velero", "github.com/vmware-tanzu/velero@v1.18.3", "config/crd/v*/bases/*.yaml", 13},
	{"volume snapshots", "k8s.io/kubernetes@v1.36.3", "cluster/addons/volumesnapshots/crd/*.yaml", 3},
	{"flux", "github.com/fluxcd/kustomize-controller@v1.6.0", "config/crd/bases/*.yaml", 1},
}

var (
	seed  = flag.Uint64("seed", rand.Uint64(), "`number` for the random objects")
	count = flag.Int("objects", 1000, "`number` of random objects for each set of APIs")
	only  = flag.String("only", "", "a `regular expression` for the names of the sets; default: all")
)

var separator = regexp.MustCompile(`(?m)^---.*$`)

// documents calls do with each document of a YAML file.
func documents(t *testing.T, file string, do func(text []byte) error) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range separator.Split(string(content), -1) {
		if err := do([]byte(text)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// definitions returns the CRDs in files.
func definitions(t *testing.T, files ...string) (all []apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, file := range files {
		documents(t, file, func(text []byte) error {
			var d apiextensionsv1.CustomResourceDefinition
			err := yaml.Unmarshal(text, &d)
			if err == nil && d.Kind == "CustomResourceDefinition" {
				all = append(all, d)
			}
			return err
		})
	}
	return all
}

// sample is an object, with the schema of its kind.
type sample struct {
	object    map[string]any
	schema    *schema
	set       int  // the index in published
	uncounted bool // an object with all properties, which need not be valid
}

// samples returns about n random objects of the served versions of all kinds of a set, and objects with all properties.
func samples(t *testing.T, set int, crds []apiextensionsv1.CustomResourceDefinition, n int) (list []sample) {
	schemas := schemasOf(crds)
	for i, name := range slices.Sorted(maps.Keys(schemas)) {
		r, err := newSampler(schemas[name], rand.New(rand.NewPCG(*seed, uint64(set)<<32|uint64(i))))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		apiVersion, kind, _ := strings.Cut(name, " ")
		share := n*(i+1)/len(schemas) - n*i/len(schemas)
		objects, full := r.objects(schemas[name], apiVersion, kind, share)
		if len(objects) < share {
			t.Logf("%s, %s: only %d of %d objects are valid", published[set].name, name, len(objects), share)
		}
		for _, obj := range objects {
			list = append(list, sample{object: obj, schema: schemas[name], set: set})
		}
		for _, obj := range full {
			list = append(list, sample{object: obj, schema: schemas[name], set: set, uncounted: true})
		}
	}
	return list
}

// schemasOf returns the schemas of served versions, by apiVersion and kind.
func schemasOf(crds []apiextensionsv1.CustomResourceDefinition) map[string]*schema {
	schemas := map[string]*schema{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if v.Served && v.Schema != nil {
				schemas[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Kind] = v.Schema.OpenAPIV3Schema
			}
		}
	}
	return schemas
}

// manifests returns the objects of known kinds in YAML files below dir.
func manifests(t *testing.T, dir string, set int, schemas map[string]*schema) (list []sample) {
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		documents(t, file, func(text []byte) error {
			var obj map[string]any
			err := yaml.Unmarshal(text, &obj)
			if s := schemas[fmt.Sprint(obj["apiVersion"], " ", obj["kind"])]; s != nil {
				list = append(list, sample{object: decoded(obj), schema: s, set: set})
			}
			return err
		})
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %d objects, %v", dir, len(list), err)
	}
	return list
}

// quick compiles generated packages without optimizations. Compilation takes most of the test's time.
const quick = "-gcflags=github.com/typedinformer/informer/codegen/internal/realapis/...=-N -l"

// reported is the order of the losses in the table.
var reported = []loss{noNull, noText, noPart, noSelector, noGeneration, noMetadata, noFraction, noQuantity}

// figures counts what became of objects of a set.
type figures struct {
	objects, identical int
	lost               map[loss]int
}

// add counts an object with these losses.
func (f *figures) add(found map[loss]bool) {
	if f.objects++; len(found) == 0 {
		f.identical++
	}
	if f.lost == nil {
		f.lost = map[loss]int{}
	}
	for what := range found {
		f.lost[what]++
	}
}

// row returns the figures as a row of the table in codegen's README.
func (f *figures) row(name string, kinds int) string {
	row := fmt.Sprintf("| %s | %d | %d | %d |", name, kinds, f.objects, f.identical)
	for _, what := range reported {
		row += fmt.Sprintf(" %d |", f.lost[what])
	}
	return row
}

// Types generated from published CRDs compile, and hold everything in the schemas. Objects with all properties, random
// ones that are valid under the schemas, and published examples pass through the types. They lose nothing but what
// codegen's README names.
func TestPublishedCRDs(t *testing.T) {
	dir, err := os.MkdirTemp(".", "generated-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	args := []string{"tool", "codegen", "-output-dir", dir}
	var files []string
	var list []sample
	t.Logf("-seed %d", *seed)
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range published {
		if !chosen.MatchString(p.name) {
			continue
		}
		pattern := filepath.Join(moduleDir(t, p.module), p.pattern)
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		crds := definitions(t, matches...)
		if len(crds) != p.kinds {
			t.Fatalf("%s: %d kinds, want %d", pattern, len(crds), p.kinds)
		}
		args, files = append(args, "-crd", pattern), append(files, matches...)
		list = append(list, samples(t, i, crds, *count)...)
		if p.name == "gateway-api" {
			list = append(list, manifests(t, filepath.Join(moduleDir(t, p.module), "examples"), i, schemasOf(crds))...)
		}
	}
	run(t, "go", args...)
	run(t, "go", "vet", quick, "./"+dir+"/...")
	compare(t, generated(t, dir), crds(t, files...), len(definitions(t, files...)))

	objects := make([]map[string]any, len(list))
	for i, s := range list {
		objects[i] = s.object
	}
	sets, wrong := make([]figures, len(published)), map[string]int{}
	for i, got := range passThrough(t, dir, objects) {
		l := losses{found: map[loss]bool{}, selectors: map[string]bool{}}
		l.compare(list[i].schema, "", objects[i], got)
		if !list[i].uncounted {
			sets[list[i].set].add(l.found)
		}
		for _, path := range l.where {
			wrong[fmt.Sprintf("%v %v loses %s", objects[i]["apiVersion"], objects[i]["kind"], path)]++
		}
	}
	for what, n := range wrong {
		t.Errorf("%s (%d times)", what, n)
	}
	table := "\n| APIs | kinds | objects | identical |"
	for _, what := range reported {
		table += " " + string(what) + " |"
	}
	table += "\n| --- |" + strings.Repeat(" ---: |", 3+len(reported))
	total := figures{lost: map[loss]int{}}
	for i, f := range sets {
		if !chosen.MatchString(published[i].name) {
			continue
		}
		if f.objects < *count*9/10 {
			t.Errorf("%s: only %d objects are valid", published[i].name, f.objects)
		}
		table += "\n" + f.row(published[i].name, published[i].kinds)
		total.objects, total.identical = total.objects+f.objects, total.identical+f.identical
		for what, n := range f.lost {
			total.lost[what] += n
		}
	}
	t.Log(table + "\n" + total.row("all", len(definitions(t, files...))))
}
