package e2e

import (
	"testing"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// fieldValidationScript has unknown and duplicate fields in every kind of write.
const fieldValidationScript = `
create, default: POST /api/v1/namespaces/{namespace}/configmaps show=data
{"metadata":{"name":"a","nosuch":1},"data":{"k":"v","k":"w"},"date":{"a":"b"}}

create, warn: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Warn show=data
{"metadata":{"name":"b"},"data":{"k":"v"},"date":{"a":"b"}}

create, ignore: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Ignore show=data
{"metadata":{"name":"c"},"data":{"k":"v"},"date":{"a":"b"}}

create, strict: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict
{"metadata":{"name":"d"},"data":{"k":"v","k":"w"},"date":{"a":"b"}}

create, nonsense: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Sometimes
{"metadata":{"name":"d"}}

create, strict and right: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict show=data
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e"},"data":{"k":"v"}}

create, another case: POST /api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict
{"metadata":{"name":"f"},"Data":{"k":"v"}}

create, a type: POST /api/v1/namespaces/{namespace}/configmaps
{"metadata":{"name":"f"},"data":{"k":1}}

create, nested: POST /api/v1/namespaces/{namespace}/pods?fieldValidation=Strict
{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","imagee":"j","env":[{"name":"a","name":"b"}]}]}}

create, nested warnings: POST /api/v1/namespaces/{namespace}/pods show=spec.nodeName
{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","imagee":"j"}],"nodename":"n"}}

create, another kind: POST /api/v1/namespaces/{namespace}/configmaps show=errors
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"g"}}

create, an unknown kind: POST /api/v1/namespaces/{namespace}/configmaps show=errors
{"apiVersion":"v1","kind":"Nosuch","metadata":{"name":"g"}}

create, another version: POST /apis/apps/v1/namespaces/{namespace}/deployments
{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"g"}}

create, another group: POST /api/v1/namespaces/{namespace}/configmaps show=errors
{"apiVersion":"apps/v1","metadata":{"name":"g"}}

create, no version: POST /api/v1/namespaces/{namespace}/configmaps show=apiVersion,kind
{"kind":"ConfigMap","metadata":{"name":"g"}}

create, no kind: POST /api/v1/namespaces/{namespace}/configmaps show=apiVersion,kind
{"apiVersion":"v1","metadata":{"name":"h"}}

update, another kind: PUT /api/v1/namespaces/{namespace}/configmaps/g show=errors
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"g"}}

create, not JSON: POST /api/v1/namespaces/{namespace}/configmaps
{"metadata":

update, default: PUT /api/v1/namespaces/{namespace}/configmaps/a show=data
{"metadata":{"name":"a"},"data":{"k":"v2"},"date":{"a":"b"}}

update, ignore: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Ignore show=data
{"metadata":{"name":"a"},"data":{"k":"v3","k":"v4"},"date":{"a":"b"}}

update, strict: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Strict
{"metadata":{"name":"a"},"data":{"k":"v2"},"date":{"a":"b"}}

update, nonsense: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Sometimes
{"metadata":{"name":"a"}}

merge, default: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=merge show=data
{"data":{"m":"1","m":"2"},"date":{"a":"b"}}

merge, ignore: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Ignore as=merge show=data
{"data":{"m":"3","m":"4"},"date":{"a":"b"}}

merge, strict: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Strict as=merge show=errors
{"data":{"m":"1","m":"2"},"date":{"a":"b"}}

merge, strict, duplicates: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Strict as=merge show=errors
{"data":{"m":"1","m":"2"}}

merge, not JSON: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=merge
{"data"

merge, a list: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=merge
[1]

json patch, default: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch show=data
[{"op":"add","path":"/data/j","value":"1","value":"2"},{"op":"add","path":"/date","value":{}}]

json patch, ignore: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Ignore as=patch show=data
[{"op":"add","path":"/data/j","value":"3","value":"4"},{"op":"add","path":"/date","value":{}}]

json patch, strict: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Strict as=patch show=errors
[{"op":"add","path":"/data/j","value":"1","value":"2"},{"op":"add","path":"/date","value":{}}]

json patch, an unknown word: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch show=data
[{"op":"add","path":"/data/j","value":"5","colour":"red"}]

json patch, an object: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch show=errors
{"op":"add"}

json patch, no operation: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch show=errors
[{"op":"nosuch","path":"/data/j"}]

json patch, a failed test: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch show=errors
[{"op":"test","path":"/data/j","value":"no"}]

strategic, default: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=strategic show=data
{"data":{"s":"1","s":"2"},"date":{"a":"b"}}

strategic, ignore: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Ignore as=strategic show=data
{"data":{"s":"3","s":"4"},"date":{"a":"b"}}

strategic, strict: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldValidation=Strict as=strategic
{"data":{"s":"1","s":"2"},"date":{"a":"b"}}

strategic, nested: PATCH /api/v1/namespaces/{namespace}/pods/p?fieldValidation=Strict as=strategic
{"spec":{"containers":[{"name":"c","imagee":"j"}],"nodename":"n"}}

strategic, a type: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=strategic show=errors
{"data":{"s":1}}

strategic, not JSON: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=strategic
{"data"

apply, default: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m as=apply show=data
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v","k":"w"}}

apply, warn: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Warn as=apply show=data
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v","k":"w2"}}

apply, ignore: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Ignore as=apply show=data
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v","k":"w3"}}

apply, strict: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Strict as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v","k":"w4"}}

apply, strict, lines: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Strict as=apply
apiVersion: v1
kind: ConfigMap
metadata: {name: applied}
data:
  k: v
  k: w

apply, nonsense: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Sometimes as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"}}

apply, an unknown field: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"date":{"a":"b"}}

apply, an unknown field, ignored: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m&fieldValidation=Ignore as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"date":{"a":"b"}}

apply, a type: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":["a"]}

apply, not YAML: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m as=apply
{"apiVersion":

apply, a number: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=m as=apply
1
`

// TestSameFieldValidationAsKubeAPIServer compares how both servers treat fields that a kind does not have, and duplicates.
// Guarantees: W10
func TestSameFieldValidationAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	converse(t, inProcess, fieldValidationScript, nil)
}

// applyScript applies objects, with managers that share and take fields.
const applyScript = `
first apply: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"v","one":"1"}}

again: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"v","one":"1"}}

no manager: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}

another kind: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}

no kind: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"metadata":{"name":"a"}}

another name: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}

no name: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply show=data
{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"v","one":"1"}}

managedFields given: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"x"}]},"data":{"k":"v"}}

conflict: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=two as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}

the same value: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=two as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","two":"2"}}

conflict of several: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=three as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w","one":"w","two":"w"}}

forced: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=two&force=true as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w","two":"2"}}

removed: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=two as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"two":"2"}}

an update takes a field: PUT /api/v1/namespaces/{namespace}/configmaps/a
{"metadata":{"name":"a","labels":{"l":"2"}},"data":{"two":"updated","new":"1"}}

conflict with an update: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=two as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"two":"2"}}

a merge patch: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=merger as=merge
{"data":{"two":"merged"}}

a merge patch without changes: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=merger as=merge
{}

a merge patch of the same value: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=other as=merge
{"metadata":{"name":"a"}}

an update without managedFields keeps them: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=putter show=metadata.managedFields
{"metadata":{"name":"a"},"data":{"two":"put"}}

an update drops them: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=putter
{"metadata":{"name":"a","managedFields":[{}]},"data":{"two":"put"}}

after that, an update: PUT /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=putter
{"metadata":{"name":"a"},"data":{"two":"put again"}}

after that, an apply: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"two":"x"}}

after that, forced: PATCH /api/v1/namespaces/{namespace}/configmaps/a?fieldManager=one&force=true as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"two":"x"}}

a patch drops them: PATCH /api/v1/namespaces/{namespace}/configmaps/a as=patch
[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]

nonsense as managedFields: PUT /api/v1/namespaces/{namespace}/configmaps/a
{"metadata":{"name":"a","managedFields":[{"manager":"x","operation":"Sometimes"}]},"data":{"two":"put"}}

created: POST /api/v1/namespaces/{namespace}/configmaps
{"metadata":{"name":"b","labels":{"l":"1"},"annotations":{"a":"1"},"finalizers":["example.com/f"]},"data":{"k":"v"}}

created by a manager: POST /api/v1/namespaces/{namespace}/configmaps?fieldManager=creator
{"metadata":{"name":"c"},"data":{"k":"v"}}

created with managedFields: POST /api/v1/namespaces/{namespace}/configmaps?fieldManager=creator
{"metadata":{"name":"d","managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]},"data":{"k":"v"}}

created with a bad manager: POST /api/v1/namespaces/{namespace}/configmaps?fieldManager=%09
{"metadata":{"name":"e"}}

created, conflict: PATCH /api/v1/namespaces/{namespace}/configmaps/c?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"w"}}

created, the same value: PATCH /api/v1/namespaces/{namespace}/configmaps/c?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}

created, another field: PATCH /api/v1/namespaces/{namespace}/configmaps/b?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"one":"1"}}

by the creator: PATCH /api/v1/namespaces/{namespace}/configmaps/c?fieldManager=creator as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"x"}}

updated by the creator: PUT /api/v1/namespaces/{namespace}/configmaps/b
{"metadata":{"name":"b"},"data":{"k":"x","one":"1"}}

updated without a change: PUT /api/v1/namespaces/{namespace}/configmaps/b
{"metadata":{"name":"b"},"data":{"k":"x","one":"1"}}

a dry run: PATCH /api/v1/namespaces/{namespace}/configmaps/dry?fieldManager=one&dryRun=All as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dry"},"data":{"k":"v"}}

not there after the dry run: GET /api/v1/namespaces/{namespace}/configmaps/dry

with a version, missing: PATCH /api/v1/namespaces/{namespace}/configmaps/none?fieldManager=one as=apply show=errors
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"none","resourceVersion":"1"},"data":{"k":"v"}}

with a uid, missing: PATCH /api/v1/namespaces/{namespace}/configmaps/none2?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"none2","uid":"1"},"data":{"k":"v"}}

with an old version: PATCH /api/v1/namespaces/{namespace}/configmaps/c?fieldManager=one as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"1"},"data":{"k":"v"}}

a list by key: PATCH /api/v1/namespaces/{namespace}/services/s?fieldManager=one as=apply show=metadata.managedFields
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP"}],"selector":{"a":"b"}}}

another item of the list: PATCH /api/v1/namespaces/{namespace}/services/s?fieldManager=two as=apply show=metadata.managedFields
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"name":"b","port":81,"protocol":"TCP"}]}}

a conflict in the list: PATCH /api/v1/namespaces/{namespace}/services/s?fieldManager=two as=apply
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"name":"c","port":80,"protocol":"TCP"}]}}

removed from the list: PATCH /api/v1/namespaces/{namespace}/services/s?fieldManager=two as=apply show=metadata.managedFields
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"ClusterIP"}}

duplicates in the list: PATCH /api/v1/namespaces/{namespace}/services/s?fieldManager=one as=apply
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP"},{"name":"b","port":80,"protocol":"TCP"}]}}

a pod: PATCH /api/v1/namespaces/{namespace}/pods/p?fieldManager=one as=apply show=metadata.managedFields
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}

its status: PATCH /api/v1/namespaces/{namespace}/pods/p/status?fieldManager=kubelet as=apply show=metadata.managedFields,status.phase
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}

its status, of a second manager: PATCH /api/v1/namespaces/{namespace}/pods/p/status?fieldManager=other as=apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"status":{"phase":"Failed"}}

its status, of a missing pod: PATCH /api/v1/namespaces/{namespace}/pods/none/status?fieldManager=kubelet as=apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"none"},"status":{"phase":"Running"}}

its status, updated: PATCH /api/v1/namespaces/{namespace}/pods/p/status?fieldManager=patcher as=merge show=metadata.managedFields,status.phase
{"status":{"phase":"Failed"}}
`

// TestSameAppliesAsKubeAPIServer compares server-side apply and metadata.managedFields.
// Guarantees: W10
func TestSameAppliesAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	converse(t, inProcess, applyScript, nil)
}
