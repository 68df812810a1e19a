package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// updatedKinds are collections, each with what an object has beside its metadata.
const updatedKinds = `
/api/v1/namespaces/{namespace}/configmaps "data":{"k":"v"}
/api/v1/namespaces/{namespace}/secrets "stringData":{"k":"v"}
/api/v1/namespaces/{namespace}/services "spec":{"clusterIP":"None"}
/api/v1/namespaces/{namespace}/endpoints "subsets":[]
/api/v1/namespaces/{namespace}/limitranges "spec":{"limits":[]}
/api/v1/namespaces/{namespace}/serviceaccounts "secrets":[]
/api/v1/namespaces/{namespace}/events "involvedObject":{"namespace":"{namespace}"},"reason":"a"
/apis/apps/v1/namespaces/{namespace}/deployments "spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}
/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases "spec":{}
/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets "spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}
/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles "rules":[]
/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}
/apis/rbac.authorization.k8s.io/v1/clusterroles "rules":[]
/apis/rbac.authorization.k8s.io/v1/clusterrolebindings "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}
/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities "storageClassName":"s"
/apis/storage.k8s.io/v1/csidrivers "spec":{"attachRequired":true}
/apis/storage.k8s.io/v1/csinodes "spec":{"drivers":[]}
/apis/storage.k8s.io/v1/storageclasses "provisioner":"p.example.com"
/apis/storage.k8s.io/v1/volumeattachments "spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"v"}}
/apis/node.k8s.io/v1/runtimeclasses "handler":"h"
/apis/scheduling.k8s.io/v1/priorityclasses "value":1
/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations "webhooks":[]
/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations "webhooks":[]
/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies "spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nothings"]}]},"validations":[{"expression":"true"}]}
/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings "spec":{"policyName":"none.example.com","validationActions":["Deny"]}
`

// updateScript returns a script that creates and updates an object of each kind, with and without a resourceVersion, and updates
// objects that do not exist. At the end it deletes them. Their names have the namespace in them, since some kinds have none.
func updateScript() string {
	var script strings.Builder
	for line := range strings.Lines(strings.TrimSpace(updatedKinds)) {
		collection, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind := collection[strings.LastIndexByte(collection, '/')+1:]
		say := func(what, verb, name, metadata string) {
			path, body := collection, ""
			if verb != "POST" {
				path += "/" + name
			}
			if verb != "DELETE" {
				body = fmt.Sprintf("{\"metadata\":{\"name\":%q%s},%s}\n", name, metadata, content)
			}
			fmt.Fprintf(&script, "%s, %s: %s %s show=errors\n%s\n", kind, what, verb, path, body)
		}
		const there, missing = "{namespace}-a", "{namespace}-b"
		say("create", "POST", there, "")
		say("update without a version", "PUT", there, "")
		say("update with version 0", "PUT", there, `,"resourceVersion":"0","labels":{"a":"b"}`)
		say("update with an old version", "PUT", there, `,"resourceVersion":"1"`)
		say("update of a missing one with a UID", "PUT", missing, `,"uid":"a-b-c"`)
		say("update of a missing one with a version", "PUT", missing, `,"resourceVersion":"1"`)
		say("deletion of that", "DELETE", missing, "")
		say("update of a missing one", "PUT", missing, "")
		say("second deletion of that", "DELETE", missing, "")
		say("deletion", "DELETE", there, "")
		say("create with version 0", "POST", missing, `,"resourceVersion":"0"`)
		say("deletion of the new one", "DELETE", missing, "")
	}
	return script.String()
}

// TestSameUpdatesAsKubeAPIServer compares updates of many kinds. Some need a resourceVersion, and some create a missing object.
// Guarantees: W10
func TestSameUpdatesAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	converse(t, inProcess, updateScript(), map[string]string{})
}
