package e2e

import (
	"strings"
	"testing"
)

// invalidDefinitions are bodies by name.
const invalidDefinitions = `
no schema: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":null}]}}
no structural schema: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"properties":{"x":{"type":"string"}}}}}}}]}}
no type at the root: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"properties":{}}}}]}}
an unknown type: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"text"}}}}}]}}
a default of another type: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","default":3}}}}}]}}
a rule that does not compile: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","x-kubernetes-validations":[{"rule":"self.nosuch == 1"}]}}}}}]}}
an empty rule: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","x-kubernetes-validations":[{"rule":""}]}}}}}]}}
a rule of metadata: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.labels.size() > 0"}],"properties":{"x":{"type":"string"}}}}}]}}
a rule without a boolean: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-validations":[{"rule":"'a'"}],"properties":{"x":{"type":"string"}}}}}]}}
an expensive rule: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"array","items":{"type":"array","items":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a.all(c, b.all(d, c == d))))"}]}}}}}]}}
a bad pattern: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","pattern":"("}}}}}]}}
a list map without keys: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"array","x-kubernetes-list-type":"map","items":{"type":"object"}}}}}}]}}
metadata in the schema: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}}}]}}
two storage versions: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}
no storage version: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}
two equal versions: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}
a bad version: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"V 1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
no versions: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[]}}
a bad scope: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Everywhere","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad plural: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a_b.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a_b","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad kind: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"a b"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
no kind: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":""},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad short name: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A","shortNames":["A B"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad category: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A","categories":["A B"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
another name: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"b.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad group: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"Bad Group","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a protected group: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.k8s.io"},"spec":{"group":"battery.k8s.io","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
a bad column: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"additionalPrinterColumns":[{"name":"a","type":"text","jsonPath":".spec.a"},{"name":"","type":"string","jsonPath":"spec.a"}]}]}}
a bad scale: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"subresources":{"scale":{"specReplicasPath":".status.a","statusReplicasPath":""}}}]}}
a bad selectable field: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"object"}}}},"selectableFields":[{"jsonPath":".x"},{"jsonPath":".nosuch"}]}]}}
a bad conversion: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],"conversion":{"strategy":"Webhook"}}}
an unknown conversion: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],"conversion":{"strategy":"Sometimes"}}}
preserved fields: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],"preserveUnknownFields":true}}
a deprecation warning without deprecation: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"deprecationWarning":"x"}]}}
an unknown field: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],"nosuch":1}}
an immutable rule outside of a map: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}}}}]}}
a bad reason: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","x-kubernetes-validations":[{"rule":"true","reason":"Sometimes","fieldPath":".y"}]}}}}}]}}
a default that is invalid: {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","enum":["a"],"default":"b"}}}}}]}}
`

// definitionScript creates definitions whose names conflict, and one whose versions and schemas change while it has objects.
const definitionScript = `
definition, strict: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All&fieldValidation=Strict
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}],"nosuch":1}}

first: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions show=spec,status.acceptedNames,status.storedVersions,metadata.name,metadata.generation
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}

first, established: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.battery.example.com until=InitialNamesAccepted show=status

first again: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}

same kind: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions show=spec,status.acceptedNames,metadata.name,metadata.generation
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgetz.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"widgetz","kind":"Widget","shortNames":["wz"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}

same kind, conditions: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgetz.battery.example.com until=NamesAccepted show=status

same kind, not served: GET /apis/battery.example.com/v1/namespaces/{namespace}/widgetz

same short name: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions show=spec,status.acceptedNames,metadata.name,metadata.generation
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"sprockets.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"sprockets","kind":"Sprocket","shortNames":["wd","sp"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}

same short name, conditions: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/sprockets.battery.example.com until=NamesAccepted show=status

singular of another: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions show=spec,status.acceptedNames,metadata.name,metadata.generation
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"cogs.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Namespaced","names":{"plural":"cogs","kind":"Cog","singular":"widgets"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}

singular of another, conditions: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/cogs.battery.example.com until=NamesAccepted show=status

the first goes: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.battery.example.com show=metadata.name,metadata.finalizers,status.conditions

the first is gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.battery.example.com until=404

then the second is accepted: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgetz.battery.example.com until=InitialNamesAccepted show=status

and served: GET /apis/battery.example.com/v1/namespaces/{namespace}/widgetz until=[] show=kind,items

the third is accepted: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/sprockets.battery.example.com until=InitialNamesAccepted show=status

delete widgetz: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgetz.battery.example.com show=metadata.name

widgetz are gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgetz.battery.example.com until=404

delete sprockets: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/sprockets.battery.example.com show=metadata.name

sprockets are gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/sprockets.battery.example.com until=404

delete cogs: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/cogs.battery.example.com show=metadata.name

cogs are gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/cogs.battery.example.com until=404

gears: POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=me show=spec.scope,metadata.managedFields
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gears.battery.example.com"},"spec":{"group":"battery.example.com","scope":"Cluster","names":{"plural":"gears","kind":"Gear"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","default":"B"}}}}}}}]}}

gears served: GET /apis/battery.example.com/v1/gears until=[] show=items

a gear: POST /apis/battery.example.com/v1/gears
{"apiVersion": "battery.example.com/v1", "kind": "Gear", "metadata": {"name": "one", "finalizers": ["example.com/f"]}, "spec": {"a": "1", "b": "2", "c": "3"}}

another gear: POST /apis/battery.example.com/v1/gears show=spec
{"apiVersion": "battery.example.com/v1", "kind": "Gear", "metadata": {"name": "two"}, "spec": {"a": "x"}}

gear in a namespace: GET /apis/battery.example.com/v1/namespaces/{namespace}/gears

a new schema: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch show=metadata.generation,status.storedVersions
[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties", "value": {"a": {"type": "string", "maxLength": 1}, "d": {"type": "string", "default": "D"}}}]

pruned and defaulted: GET /apis/battery.example.com/v1/gears/one until="D" show=spec,metadata.generation,metadata.resourceVersion

listed: GET /apis/battery.example.com/v1/gears show=items

invalid now: PATCH /apis/battery.example.com/v1/gears/two as=merge
{"spec":{"a":"long"}}

a label alone: PATCH /apis/battery.example.com/v1/gears/one as=merge show=spec,metadata.generation
{"metadata":{"labels":{"l":"m"}}}

stricter than what is stored: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch show=metadata.generation
[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a", "value": {"type": "string", "enum": ["z"]}}]

strict is served: POST /apis/battery.example.com/v1/gears?dryRun=All until=422
{"apiVersion": "battery.example.com/v1", "kind": "Gear", "metadata": {"name": "three"}, "spec": {"a": "y"}}

ratcheting: PATCH /apis/battery.example.com/v1/gears/one as=merge show=spec
{"spec":{"d":"E"}}

no ratcheting: PATCH /apis/battery.example.com/v1/gears/one as=merge
{"spec":{"a":"2"}}

a second version: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch show=status.storedVersions
[{"op": "add", "path": "/spec/versions/-", "value": {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}, "e": {"type": "string", "default": "E"}}}}}}}}]

served in v2: GET /apis/battery.example.com/v2/gears/one until=200 show=apiVersion,spec

written in v2: PATCH /apis/battery.example.com/v2/gears/one as=merge show=apiVersion,spec
{"spec":{"e":"F"}}

read in v1: GET /apis/battery.example.com/v1/gears/one show=apiVersion,spec

storage in v2: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch show=spec.versions
[{"op": "replace", "path": "/spec/versions/0/storage", "value": false}, {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]

stored versions: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com until="v2"] show=status.storedVersions

created in v2: POST /apis/battery.example.com/v2/gears until=201 show=spec
{"apiVersion": "battery.example.com/v2", "kind": "Gear", "metadata": {"name": "three"}, "spec": {"a": "z"}}

v1 dropped: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch
[{"op": "remove", "path": "/spec/versions/0"}]

stored versions patched: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com/status as=merge show=status.storedVersions
{"status":{"storedVersions":["v2"]}}

v1 not served: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=patch show=status.storedVersions
[{"op": "replace", "path": "/spec/versions/0/served", "value": false}]

v1 is away: GET /apis/battery.example.com/v1/gears until=404

discovery without v1: GET /apis/battery.example.com until=[{"groupVersion":"battery.example.com/v2","version":"v2"}]

another scope: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=merge
{"spec":{"scope":"Namespaced"}}

another group: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=merge
{"spec":{"group":"other.example.com"}}

another kind: PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com as=merge show=spec.names
{"spec":{"names":{"kind":"Wheel","listKind":"WheelList","singular":"wheel"}}}

delete the gears definition: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com show=metadata.name,metadata.finalizers,status.conditions

waits: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com until=customresourcecleanup show=metadata.finalizers,metadata.deletionGracePeriodSeconds

the second gear goes: GET /apis/battery.example.com/v2/gears/two until=404

the third gear goes: GET /apis/battery.example.com/v2/gears/three until=404

left: GET /apis/battery.example.com/v2/gears until=deletionTimestamp show=items

no new one: POST /apis/battery.example.com/v2/gears show=errors
{"apiVersion": "battery.example.com/v2", "kind": "Gear", "metadata": {"name": "four"}, "spec": {"a": "z"}}

definition deleted again: DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com show=metadata.name

released: PATCH /apis/battery.example.com/v2/gears/one as=merge show=metadata.name,metadata.finalizers
{"metadata":{"finalizers":null}}

all gone: GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.battery.example.com until=404

resource gone: GET /apis/battery.example.com/v2/gears until=404
`

// Reasons for differences.
const (
	storedLater = "informertest sets storedVersions with the conditions: after it makes the answer, and before the client gets it"
	twoVersions = "kube-apiserver drops the managedFields of an object that is written in two versions with different fields"
)

// TestSameDefinitionsAsKubeAPIServer compares how CustomResourceDefinitions are validated, accepted, changed and deleted.
// Guarantees: W10
func TestSameDefinitionsAsKubeAPIServer(t *testing.T) {
	ours, theirs := newTalkersOf(t, startExample(t))
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, name := range []string{"widgets", "widgetz", "sprockets", "cogs"} {
		t.Cleanup(func() { theirs.discard(definitions + "/" + name + ".battery.example.com") })
	}
	t.Cleanup(func() {
		theirs.say(scripted{method: "PATCH", path: "/apis/battery.example.com/v2/gears/one", as: "merge", body: `{"metadata":{"finalizers":null}}`})
		theirs.discard(definitions + "/gears.battery.example.com")
	})
	var script strings.Builder
	for line := range strings.Lines(strings.TrimSpace(invalidDefinitions)) {
		name, body, _ := strings.Cut(strings.TrimSpace(line), ": ")
		script.WriteString("definition with " + name + ": POST " + definitions + "?dryRun=All\n" + body + "\n\n")
	}
	compare(t, ours, theirs, script.String()+definitionScript, map[string]string{
		"definition with an unknown field": storedLater,
		"first":                            storedLater,
		"left":                             twoVersions,
		"waits":                            "informertest also gives a definition the field deletionGracePeriodSeconds",
	})
}
