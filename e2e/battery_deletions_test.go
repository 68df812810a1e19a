package e2e

import (
	"testing"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// deletionScript deletes objects with each propagation policy, while no garbage collector runs.
const deletionScript = `
created: POST /api/v1/namespaces/{namespace}/configmaps show=kind
{"metadata":{"name":"a"}}

deleted: DELETE /api/v1/namespaces/{namespace}/configmaps/a

deleted again: DELETE /api/v1/namespaces/{namespace}/configmaps/a

created for a dry run: POST /api/v1/namespaces/{namespace}/configmaps show=kind
{"metadata":{"name":"b"}}

a dry run: DELETE /api/v1/namespaces/{namespace}/configmaps/b?dryRun=All

a dry run in the foreground: DELETE /api/v1/namespaces/{namespace}/configmaps/b?dryRun=All&propagationPolicy=Foreground

an unknown policy: DELETE /api/v1/namespaces/{namespace}/configmaps/b?propagationPolicy=Sometimes

two policies: DELETE /api/v1/namespaces/{namespace}/configmaps/b?propagationPolicy=Foreground&orphanDependents=true

another uid: DELETE /api/v1/namespaces/{namespace}/configmaps/b show=errors
{"preconditions":{"uid":"x"}}

in the foreground: DELETE /api/v1/namespaces/{namespace}/configmaps/b
{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}

waits in the foreground: GET /api/v1/namespaces/{namespace}/configmaps/b

in the foreground again: DELETE /api/v1/namespaces/{namespace}/configmaps/b?propagationPolicy=Foreground

then without a policy: DELETE /api/v1/namespaces/{namespace}/configmaps/b

then in the background: DELETE /api/v1/namespaces/{namespace}/configmaps/b?propagationPolicy=Background

gone: GET /api/v1/namespaces/{namespace}/configmaps/b

created for orphans: POST /api/v1/namespaces/{namespace}/configmaps show=kind
{"metadata":{"name":"c"}}

orphans: DELETE /api/v1/namespaces/{namespace}/configmaps/c?propagationPolicy=Orphan

then in the foreground: DELETE /api/v1/namespaces/{namespace}/configmaps/c?propagationPolicy=Foreground

released: PATCH /api/v1/namespaces/{namespace}/configmaps/c as=merge
{"metadata":{"finalizers":null}}

gone after the release: GET /api/v1/namespaces/{namespace}/configmaps/c

created with a finalizer: POST /api/v1/namespaces/{namespace}/configmaps show=kind
{"metadata":{"name":"d","finalizers":["example.com/f"]}}

orphanDependents false: DELETE /api/v1/namespaces/{namespace}/configmaps/d?orphanDependents=false

without a policy: DELETE /api/v1/namespaces/{namespace}/configmaps/d

orphanDependents true: DELETE /api/v1/namespaces/{namespace}/configmaps/d?orphanDependents=true

a job: POST /apis/batch/v1/namespaces/{namespace}/jobs show=kind
{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}

the job deleted: DELETE /apis/batch/v1/namespaces/{namespace}/jobs/j show=metadata.finalizers,metadata.deletionTimestamp

the job deleted in the background: DELETE /apis/batch/v1/namespaces/{namespace}/jobs/j?propagationPolicy=Background

no jobs: DELETE /apis/batch/v1/namespaces/{namespace}/jobs show=items

a controller: POST /api/v1/namespaces/{namespace}/replicationcontrollers show=kind
{"metadata":{"name":"r"},"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}

the controller deleted: DELETE /api/v1/namespaces/{namespace}/replicationcontrollers/r show=metadata.finalizers

a service: POST /api/v1/namespaces/{namespace}/services show=kind
{"metadata":{"name":"s"},"spec":{"ports":[{"port":1}]}}

the service deleted: DELETE /api/v1/namespaces/{namespace}/services/s show=kind,code,metadata.name

a role: POST /apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles show=kind
{"metadata":{"name":"r"},"rules":[]}

the role deleted: DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/r

deleted as a collection: DELETE /api/v1/namespaces/{namespace}/configmaps?propagationPolicy=Foreground show=kind
`

// TestSameDeletionsAsKubeAPIServer compares what deletions answer, and what they leave behind.
// Guarantees: W10
func TestSameDeletionsAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	converse(t, inProcess, deletionScript, nil)
}
