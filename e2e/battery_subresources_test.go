package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// subresourceScript uses the subresources of built-in kinds. {csr} is a certificate request.
const subresourceScript = `
deployment: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d?fieldManager=one as=apply show=metadata.managedFields
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}

get scale: GET /apis/apps/v1/namespaces/{namespace}/deployments/d/scale

get scale of nothing: GET /apis/apps/v1/namespaces/{namespace}/deployments/none/scale

update scale: PUT /apis/apps/v1/namespaces/{namespace}/deployments/d/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"{namespace}"},"spec":{"replicas":3}}

managers after the update: GET /apis/apps/v1/namespaces/{namespace}/deployments/d show=metadata.managedFields,metadata.generation

update scale of another version: PUT /apis/apps/v1/namespaces/{namespace}/deployments/d/scale
{"metadata":{"name":"d","namespace":"{namespace}","resourceVersion":"1"},"spec":{"replicas":4}}

update scale, negative: PUT /apis/apps/v1/namespaces/{namespace}/deployments/d/scale
{"metadata":{"name":"d","namespace":"{namespace}"},"spec":{"replicas":-1}}

update scale, another name: PUT /apis/apps/v1/namespaces/{namespace}/deployments/d/scale
{"metadata":{"name":"e","namespace":"{namespace}"},"spec":{"replicas":1}}

patch scale: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d/scale?fieldManager=hpa as=merge
{"spec":{"replicas":5}}

strategic patch of a scale: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d/scale?fieldManager=hpa as=strategic
{"spec":{"replicas":6}}

managers after the patch: GET /apis/apps/v1/namespaces/{namespace}/deployments/d show=metadata.managedFields,metadata.generation

apply scale: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d/scale?fieldManager=applier as=apply
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"{namespace}"},"spec":{"replicas":7}}

apply scale, forced: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d/scale?fieldManager=applier&force=true as=apply show=spec,status,metadata.name
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"{namespace}"},"spec":{"replicas":7}}

managers after the apply: GET /apis/apps/v1/namespaces/{namespace}/deployments/d show=metadata.managedFields,metadata.generation

apply the deployment again: PATCH /apis/apps/v1/namespaces/{namespace}/deployments/d?fieldManager=one as=apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}

delete scale: DELETE /apis/apps/v1/namespaces/{namespace}/deployments/d/scale

pod: POST /api/v1/namespaces/{namespace}/pods show=kind
{"metadata":{"name":"p","labels":{"app":"p"}},"spec":{"containers":[{"name":"c","image":"i"}]}}

binding of another name: POST /api/v1/namespaces/{namespace}/pods/p/binding
{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n"}}

binding without a node: POST /api/v1/namespaces/{namespace}/pods/p/binding
{"metadata":{"name":"p"},"target":{"kind":"Node"}}

binding to a pod: POST /api/v1/namespaces/{namespace}/pods/p/binding
{"metadata":{"name":"p"},"target":{"kind":"Pod","name":"n"}}

binding of nothing: POST /api/v1/namespaces/{namespace}/pods/none/binding
{"metadata":{"name":"none"},"target":{"kind":"Node","name":"n"}}

binding of another uid: POST /api/v1/namespaces/{namespace}/pods/p/binding show=errors
{"metadata":{"name":"p","uid":"x"},"target":{"kind":"Node","name":"n"}}

binding: POST /api/v1/namespaces/{namespace}/pods/p/binding
{"metadata":{"name":"p","annotations":{"a":"b"}},"target":{"kind":"Node","name":"n"}}

bound: GET /api/v1/namespaces/{namespace}/pods/p show=spec.nodeName,metadata.annotations,metadata.generation

bound already: POST /api/v1/namespaces/{namespace}/pods/p/binding
{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}

get a binding: GET /api/v1/namespaces/{namespace}/pods/p/binding

ephemeral container: PATCH /api/v1/namespaces/{namespace}/pods/p/ephemeralcontainers as=strategic show=metadata.generation
{"spec":{"ephemeralContainers":[{"name":"debug","image":"i"}]}}

ephemeral container changed: PATCH /api/v1/namespaces/{namespace}/pods/p/ephemeralcontainers as=strategic show=errors
{"spec":{"ephemeralContainers":[{"name":"debug","image":"j"}]}}

ephemeral container removed: PATCH /api/v1/namespaces/{namespace}/pods/p/ephemeralcontainers as=merge show=errors
{"spec":{"ephemeralContainers":[]}}

ephemeral container without an image: PATCH /api/v1/namespaces/{namespace}/pods/p/ephemeralcontainers as=strategic show=errors
{"spec":{"ephemeralContainers":[{"name":"debug2"}]}}

ephemeral container by an update of the pod: PATCH /api/v1/namespaces/{namespace}/pods/p as=strategic show=errors
{"spec":{"ephemeralContainers":[{"name":"debug3","image":"i"}]}}

running: PATCH /api/v1/namespaces/{namespace}/pods/p/status as=merge show=status.phase
{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}

budget: POST /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets show=kind
{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"p"}}}}

eviction before the budget is observed: POST /api/v1/namespaces/{namespace}/pods/p/eviction
{"metadata":{"name":"p"}}

no disruption allowed: PATCH /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/b/status as=merge show=status.disruptionsAllowed
{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}

eviction refused: POST /api/v1/namespaces/{namespace}/pods/p/eviction
{"metadata":{"name":"p"}}

eviction of another name: POST /api/v1/namespaces/{namespace}/pods/p/eviction
{"metadata":{"name":"q"}}

eviction of nothing: POST /api/v1/namespaces/{namespace}/pods/none/eviction
{"metadata":{"name":"none"}}

a disruption allowed: PATCH /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/b/status as=merge show=status.disruptionsAllowed
{"status":{"disruptionsAllowed":1,"currentHealthy":2}}

eviction, dry: POST /api/v1/namespaces/{namespace}/pods/p/eviction?dryRun=All
{"metadata":{"name":"p"}}

eviction of another uid: POST /api/v1/namespaces/{namespace}/pods/p/eviction show=errors
{"metadata":{"name":"p"},"deleteOptions":{"preconditions":{"uid":"x"}}}

eviction: POST /api/v1/namespaces/{namespace}/pods/p/eviction
{"metadata":{"name":"p"}}

budget after the eviction: GET /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/b show=status.disruptionsAllowed

evicted: GET /api/v1/namespaces/{namespace}/pods/p show=metadata.deletionGracePeriodSeconds

account: POST /api/v1/namespaces/{namespace}/serviceaccounts show=kind
{"metadata":{"name":"sa"}}

token: POST /api/v1/namespaces/{namespace}/serviceaccounts/sa/token show=kind,spec.expirationSeconds,spec.boundObjectRef
{"spec":{}}

token for an hour: POST /api/v1/namespaces/{namespace}/serviceaccounts/sa/token show=kind,spec
{"spec":{"expirationSeconds":7200,"audiences":["a"]}}

token for a second: POST /api/v1/namespaces/{namespace}/serviceaccounts/sa/token show=errors
{"spec":{"expirationSeconds":1}}

token of nothing: POST /api/v1/namespaces/{namespace}/serviceaccounts/none/token show=errors
{"spec":{}}

certificate request: POST /apis/certificates.k8s.io/v1/certificatesigningrequests show=kind
{"metadata":{"name":"{namespace}"},"spec":{"request":"{csr}","signerName":"example.com/signer","usages":["client auth"]}}

approved by an update: PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/{namespace} show=status
{"metadata":{"name":"{namespace}"},"spec":{"request":"{csr}","signerName":"example.com/signer","usages":["client auth"]},"status":{"conditions":[{"type":"Approved","status":"True"}]}}

approved without a status: PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/{namespace}/approval show=errors
{"metadata":{"name":"{namespace}"},"spec":{"request":"{csr}","signerName":"example.com/signer","usages":["client auth"]},"status":{"conditions":[{"type":"Approved"}]}}

approved: PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/{namespace}/approval show=spec.signerName,metadata.name
{"metadata":{"name":"{namespace}"},"spec":{"request":"{csr}","signerName":"example.com/signer","usages":["client auth"]},"status":{"conditions":[{"type":"Approved","status":"True","reason":"r","message":"m"}]}}

denied too: PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/{namespace}/approval show=errors
{"metadata":{"name":"{namespace}"},"spec":{"request":"{csr}","signerName":"example.com/signer","usages":["client auth"]},"status":{"conditions":[{"type":"Denied","status":"True","reason":"r","message":"m"}]}}

the certificate request is deleted: DELETE /apis/certificates.k8s.io/v1/certificatesigningrequests/{namespace} show=status

who am I: POST /apis/authentication.k8s.io/v1/selfsubjectreviews by=nobody show=status
{}

may I: POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews by=nobody show=status
{"spec":{"resourceAttributes":{"namespace":"{namespace}","verb":"list","resource":"pods"}}}

may I, as the admin: POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews show=status
{"spec":{"resourceAttributes":{"namespace":"{namespace}","verb":"list","resource":"pods"}}}

may I, without attributes: POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
{"spec":{}}

may somebody: POST /apis/authorization.k8s.io/v1/subjectaccessreviews show=status
{"spec":{"user":"nobody","resourceAttributes":{"namespace":"{namespace}","verb":"list","resource":"pods"}}}

may somebody, by nobody: POST /apis/authorization.k8s.io/v1/subjectaccessreviews by=nobody
{"spec":{"user":"nobody","resourceAttributes":{"namespace":"{namespace}","verb":"list","resource":"pods"}}}

forbidden list: GET /api/v1/namespaces/{namespace}/configmaps by=nobody

forbidden watch: GET /api/v1/namespaces/{namespace}/configmaps?watch=1 by=nobody

forbidden list of all: GET /apis/apps/v1/deployments by=nobody

forbidden get: GET /api/v1/namespaces/{namespace}/configmaps/a by=nobody

forbidden create: POST /api/v1/namespaces/{namespace}/configmaps by=nobody
{"metadata":{"name":"a"}}

forbidden status: PUT /api/v1/namespaces/{namespace}/pods/p/status by=nobody
{"metadata":{"name":"a"}}

forbidden deletion: DELETE /api/v1/namespaces/{namespace}/configmaps/a by=nobody

forbidden deletion of all: DELETE /api/v1/namespaces/{namespace}/configmaps by=nobody

forbidden patch of a node: PATCH /api/v1/nodes/n by=nobody as=merge
{}

forbidden path: GET /metrics by=nobody

allowed path: GET /version by=nobody show=kind
`

// certificateRequest returns a request for a certificate, encoded for JSON.
func certificateRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// TestSameSubresourcesAsKubeAPIServer compares subresources of built-in kinds, reviews, and refusals of a user without rights.
// Guarantees: W10
func TestSameSubresourcesAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{
		Controllers: informertest.Controllers{GracefulPods: true},
		Auth: &informertest.Auth{Authorize: func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{} // no rights but those of the group system:masters
		}}})
	defer inProcess.Close()
	converse(t, inProcess, strings.ReplaceAll(subresourceScript, "{csr}", certificateRequest(t)), map[string]string{
		"delete scale":              "405 too, but the Status names the resource",
		"get a binding":             "405 too, but the Status names the resource",
		"may I, without attributes": "422 too, but the Status names the kind",
	})
}
