package cluster_test

import (
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/informertest"
)

func TestWebhooksAreValidated(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		none, address := registrationv1.SideEffectClassNone, "https://user:secret@webhook.invalid/?a=secret"
		configuration := &registrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Webhooks:   []registrationv1.MutatingWebhook{{Name: "a.example.com"}},
		}
		api := clients.AdmissionregistrationV1().MutatingWebhookConfigurations()
		_, err := api.Create(t.Context(), configuration, metav1.CreateOptions{})
		wantError(t, "empty", err, `MutatingWebhookConfiguration.admissionregistration.k8s.io "a" is invalid: [webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun, webhooks[0].clientConfig: Required value: exactly one of url or service is required, webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1]`)

		w := &configuration.Webhooks[0]
		w.SideEffects, w.AdmissionReviewVersions, w.ClientConfig.URL = &none, []string{"v1"}, &address
		_, err = api.Create(t.Context(), configuration, metav1.CreateOptions{})
		wantError(t, "a URL with credentials, which the error does not have", err, `MutatingWebhookConfiguration.admissionregistration.k8s.io "a" is invalid: [webhooks[0].clientConfig.url: Invalid value: "xxxxx": user information is not permitted in the URL, webhooks[0].clientConfig.url: Invalid value: "xxxxx": query parameters are not permitted in the URL]`)

		address = "https://webhook.invalid"
		_, err = api.Create(t.Context(), configuration, metav1.CreateOptions{})
		wantError(t, "valid", err, "")
		_, err = api.Update(t.Context(), configuration, metav1.UpdateOptions{})
		wantError(t, "without a version", err, `mutatingwebhookconfigurations.admissionregistration.k8s.io "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`)
	})
}

func TestUpdatesOfLeasesNeedAVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api, lease := clients.CoordinationV1().Leases("default"), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		created, err := api.Create(t.Context(), lease, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		_, err = api.Update(t.Context(), lease, metav1.UpdateOptions{})
		wantError(t, "without a version", err, `leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`)
		_, err = api.Update(t.Context(), created, metav1.UpdateOptions{})
		wantError(t, "with a version", err, "")
	})
}
