package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// crdScript installs a CustomResourceDefinition, uses its objects, and removes it.
const crdScript = `
definition: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions show=spec.names,metadata.name
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.battery.example.com"},"spec":{
"group":"battery.example.com","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","shortNames":["gd"],"categories":["all"]},
"versions":[
{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
"selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.replicas"}],
"additionalPrinterColumns":[{"name":"Color","type":"string","jsonPath":".spec.color","description":"the color"},{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"},{"name":"Size","type":"integer","jsonPath":".spec.size","priority":1},{"name":"Phase","type":"string","jsonPath":".status.phase"}],
"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],"properties":{
"spec":{"type":"object","required":["color"],"x-kubernetes-validations":[{"rule":"!has(self.min) || !has(self.max) || self.min <= self.max","message":"min must not exceed max"}],"properties":{
"color":{"type":"string","enum":["red","green","blue"]},"size":{"type":"integer","default":3,"maximum":10},"replicas":{"type":"integer","minimum":0},"min":{"type":"integer"},"max":{"type":"integer"},
"name":{"type":"string","pattern":"^[a-z]*$","maxLength":5},"on":{"type":"boolean"},"amount":{"x-kubernetes-int-or-string":true},
"fixed":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"fixed cannot change"}]},
"reason":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'bad'","reason":"FieldValueForbidden","messageExpression":"'not ' + self"}]},
"anything":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"object":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"parts":{"type":"array","maxItems":3,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"count":{"type":"integer","default":1}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string","enum":["Ready","Failed"]},"replicas":{"type":"integer"},"selector":{"type":"string"}}}}}}},
{"name":"v1alpha1","served":true,"storage":false,"deprecated":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"shade":{"type":"string","default":"dark"}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}

served: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?dryRun=All show=kind until=201
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"dry"},"spec":{"color":"red"}}

served in the other version: GET /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets show=items until=200

resources: GET /apis/battery.example.com/v1 until=gadgets/scale

resources of the other version: GET /apis/battery.example.com/v1alpha1 until=v1alpha1

group: GET /apis/battery.example.com until=v1alpha1

create: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?fieldManager=me
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"color":"red","replicas":2,"fixed":"f","parts":[{"name":"p"}],"anything":{"x":{"y":1}}},"status":{"phase":"Ready"}}

create without a kind: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets
{"metadata":{"name":"b"},"spec":{"color":"red"}}

create of another kind: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets
{"apiVersion":"battery.example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"color":"red"}}

create of another version: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets
{"apiVersion":"battery.example.com/v1alpha1","kind":"Gadget","metadata":{"name":"b"},"spec":{"color":"red"}}

create again: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"color":"red"}}

unknown fields: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets show=spec,extra
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"pruned"},"extra":1,"spec":{"color":"blue","replicas":1,"unknown":{"a":1},"parts":[{"name":"p","unknown":1}]}}

unknown fields, strict: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?fieldValidation=Strict
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"strict"},"extra":1,"spec":{"color":"blue","unknown":{"a":1}}}

{invalid}

a bad name: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets show=errors
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"A b"},"spec":{"color":"red"}}

a bad label: POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets show=errors
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"b","labels":{"a b":"c"}},"spec":{"color":"red"}}

a transition: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a as=merge
{"spec":{"fixed":"g"}}

the spec: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a?fieldManager=you as=merge
{"spec":{"color":"green"},"status":{"phase":"Failed"}}

the status: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/status?fieldManager=you as=merge
{"spec":{"color":"blue"},"status":{"phase":"Ready","replicas":2,"selector":"a=b"}}

a bad status: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/status as=merge
{"status":{"phase":"Sometimes"}}

a status with unknown fields: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/status as=merge show=status
{"status":{"phase":"Ready","unknown":1}}

update without a version: PUT /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"color":"red"}}

update with an old version: PUT /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"a","resourceVersion":"1"},"spec":{"color":"red"}}

strategic patch: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a as=strategic
{"spec":{"color":"red"}}

json patch: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a as=patch show=spec
[{"op":"replace","path":"/spec/size","value":7}]

apply: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/applied?fieldManager=one as=apply
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"applied"},"spec":{"color":"red","parts":[{"name":"p"}],"set":["x"]}}

apply of a second manager: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/applied?fieldManager=two as=apply
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"applied"},"spec":{"color":"red","parts":[{"name":"q","count":2}],"set":["y"]}}

apply of an embedded object: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/embedding?fieldManager=one as=apply
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"embedding"},"spec":{"color":"red","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","finalizers":["x.example.com/a"],"labels":{"a":"1"}},"data":{"a":1}}}}

apply of an embedded object by a second manager: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/embedding?fieldManager=two as=apply
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"embedding"},"spec":{"color":"red","object":{"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":["x.example.com/b"],"labels":{"b":"2"}},"data":{"b":2}}}}

apply with a conflict: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/applied?fieldManager=two as=apply
{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"applied"},"spec":{"color":"blue"}}

get scale: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/scale

update scale: PUT /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"{namespace}"},"spec":{"replicas":5}}

patch scale: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/scale?fieldManager=hpa as=merge
{"spec":{"replicas":6}}

a negative scale: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a/scale as=merge
{"spec":{"replicas":-1}}

scale of the other version: GET /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets/a/scale

after the scale: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/a

in the other version: GET /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets/a show=apiVersion,kind,spec,status

list: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets

created in the other version: POST /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets?fieldManager=me
{"apiVersion":"battery.example.com/v1alpha1","kind":"Gadget","metadata":{"name":"other"},"spec":{"color":"pink"}}

read in the first version: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/other show=apiVersion,spec

updated in the first version: PATCH /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/other as=merge show=apiVersion,spec
{"spec":{"size":4}}

list with an object of the other version: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets

table: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets as=table show=columnDefinitions

selected by color: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?fieldSelector=spec.color%3Dgreen

selected by replicas: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?fieldSelector=spec.replicas%3D1

selected by another field: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?fieldSelector=spec.size%3D3

selected in the other version: GET /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets?fieldSelector=spec.color%3Dgreen

delete: DELETE /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/pruned

delete again: DELETE /apis/battery.example.com/v1/namespaces/{namespace}/gadgets/pruned

delete in the other version: DELETE /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets/applied

delete the definition: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.battery.example.com show=metadata.name,metadata.finalizers

the definition is gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.battery.example.com until=404

list afterwards: GET /apis/battery.example.com/v1/namespaces/{namespace}/gadgets until=404

the other version afterwards: GET /apis/battery.example.com/v1alpha1/namespaces/{namespace}/gadgets until=404

the group afterwards: GET /apis/battery.example.com until=404
`

// invalidGadgets are specs by name.
const invalidGadgets = `
null
{}
{"color":"pink"}
{"color":3}
{"color":null}
{"color":"red","size":11}
{"color":"red","size":"x"}
{"color":"red","size":null}
{"color":"red","size":1.5}
{"color":"red","replicas":-1}
{"color":"red","on":"yes"}
{"color":"red","name":"Abc"}
{"color":"red","name":"abcdef"}
{"color":"red","amount":true}
{"color":"red","amount":"5%"}
{"color":"red","min":2,"max":1}
{"color":"pink","min":2,"max":1}
{"color":"red","reason":"bad"}
{"color":"red","set":["a","a"]}
{"color":"red","set":"a"}
{"color":"red","parts":[{"count":2}]}
{"color":"red","parts":[{"name":"a"},{"name":"a"}]}
{"color":"red","parts":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]}
{"color":"red","parts":[3]}
{"color":"red","anything":3}
`

// startExample builds the program examples/apiserver, runs it until the test ends, and returns the configuration of its clients.
// It serves CustomResourceDefinitions, in a process of its own: their code would add minutes to the build of these tests.
func startExample(t *testing.T) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	program, kubeconfig := filepath.Join(dir, "apiserver"), filepath.Join(dir, "kubeconfig")
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-tags=assert", "-o", program, ".")
	build.Dir = filepath.Join("..", "examples", "apiserver")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, output)
	}
	run := exec.Command(program, "-kubeconfig", kubeconfig, "-nodes", "0")
	var log bytes.Buffer
	run.Stderr = &log
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		if err := run.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		<-drained
		if err := run.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", run, err, &log)
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	go func() {
		defer close(drained)
		io.Copy(io.Discard, lines)
	}()
	if err != nil || !strings.HasPrefix(line, "serving at ") {
		t.Fatalf("it printed %q, %v", line, err)
	}
	return readKubeconfig(t, kubeconfig)
}

// readKubeconfig returns what a kubeconfig with one cluster and one user says.
func readKubeconfig(t *testing.T, path string) *rest.Config {
	t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string `json:"server"`
				Authority []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token       string `json:"token"`
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(content, &config)
	}
	if err != nil || len(config.Clusters) != 1 || len(config.Users) != 1 {
		t.Fatalf("%s: %v\n%s", path, err, content)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	return &rest.Config{Host: cluster.Server, BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.Authority, CertData: user.Certificate, KeyData: user.Key}}
}

// TestSameCustomResourcesAsKubeAPIServer compares how a CustomResourceDefinition and its objects are served.
// Guarantees: W10
func TestSameCustomResourcesAsKubeAPIServer(t *testing.T) {
	ours, theirs := newTalkersOf(t, startExample(t))
	t.Cleanup(func() {
		theirs.discard("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.battery.example.com")
	})
	var invalid strings.Builder
	for spec := range strings.Lines(strings.TrimSpace(invalidGadgets)) {
		spec = strings.TrimSpace(spec)
		invalid.WriteString("spec " + spec + ": POST /apis/battery.example.com/v1/namespaces/{namespace}/gadgets?dryRun=All show=spec\n" +
			`{"apiVersion":"battery.example.com/v1","kind":"Gadget","metadata":{"name":"b"},"spec":` + spec + "}\n\n")
	}
	script := strings.ReplaceAll(crdScript, "{invalid}", strings.TrimSpace(invalid.String()))
	compare(t, ours, theirs, script, map[string]string{
		"list with an object of the other version": twoVersions,
		`spec {"color":"red","size":1.5}`:          "the example links an older apiextensions-apiserver, which finds one error less",
	})
}
