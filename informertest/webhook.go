package informertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// webhook is an admission webhook, mutating or validating.
type webhook struct {
	name              string
	client            registrationv1.WebhookClientConfig
	rules             []registrationv1.RuleWithOperations
	namespaceSelector *metav1.LabelSelector
	objectSelector    *metav1.LabelSelector
	conditions        []registrationv1.MatchCondition
	timeout           time.Duration
	ignore            bool // its failures
	harmless          bool // a dry run may call it
	mutating          bool
	again             bool // call it again if a later one has changed the object
	exact             bool // only for the versions of its rules
}

// defaultWebhookTimeout is the time for a call if the configuration has none.
const defaultWebhookTimeout = 10 * time.Second

// mutatingWebhooks returns the mutating webhooks in the order in which they are called.
func (s *Server) mutatingWebhooks() (all []webhook, err error) {
	configured, err := configurations[registrationv1.MutatingWebhookConfiguration](s, mutatingConfigurations)
	for _, configuration := range configured {
		for _, w := range configuration.Webhooks {
			again := w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy
			hook := webhookOf(registrationv1.ValidatingWebhook{
				Name:              w.Name,
				ClientConfig:      w.ClientConfig,
				Rules:             w.Rules,
				FailurePolicy:     w.FailurePolicy,
				MatchPolicy:       w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector,
				ObjectSelector:    w.ObjectSelector,
				SideEffects:       w.SideEffects,
				TimeoutSeconds:    w.TimeoutSeconds,
				MatchConditions:   w.MatchConditions,
			})
			hook.mutating, hook.again = true, again
			all = append(all, hook)
		}
	}
	return all, err
}

// validatingWebhooks returns the validating webhooks.
func (s *Server) validatingWebhooks() (all []webhook, err error) {
	configured, err := configurations[registrationv1.ValidatingWebhookConfiguration](s, validatingConfigurations)
	for _, configuration := range configured {
		for _, w := range configuration.Webhooks {
			all = append(all, webhookOf(w))
		}
	}
	return all, err
}

// webhookOf returns a validating webhook.
func webhookOf(w registrationv1.ValidatingWebhook) webhook {
	return webhook{
		name:              w.Name,
		client:            w.ClientConfig,
		rules:             w.Rules,
		namespaceSelector: everything(w.NamespaceSelector),
		objectSelector:    everything(w.ObjectSelector),
		conditions:        w.MatchConditions,
		timeout:           timeoutOf(w.TimeoutSeconds),
		ignore:            w.FailurePolicy != nil && *w.FailurePolicy == registrationv1.Ignore,
		harmless:          isHarmless(w.SideEffects),
		exact:             w.MatchPolicy != nil && *w.MatchPolicy == registrationv1.Exact,
	}
}

// everything returns a selector, or one that selects everything, which is the default of a webhook.
func everything(selector *metav1.LabelSelector) *metav1.LabelSelector {
	if selector == nil {
		return &metav1.LabelSelector{}
	}
	return selector
}

func timeoutOf(seconds *int32) time.Duration {
	if seconds == nil {
		return defaultWebhookTimeout
	}
	return time.Duration(*seconds) * time.Second
}

func isHarmless(class *registrationv1.SideEffectClass) bool {
	return class != nil && (*class == registrationv1.SideEffectClassNone ||
		*class == registrationv1.SideEffectClassNoneOnDryRun)
}

// failed returns the error of a write whose webhook cannot be called.
func (h webhook) failed(err error) error {
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", h.name, err))
}

// call sends a request to the webhook and returns its response.
func (h webhook) call(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse,
	error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	review := admissionv1.AdmissionReview{Request: request}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	answer, err := h.post(ctx, body)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	response, err := h.read(answer, request)
	if err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	return response, nil
}

// post sends a body to the webhook and returns that of the response.
func (h webhook) post(ctx context.Context, body []byte) ([]byte, error) {
	if h.client.URL == nil {
		return nil, errors.New("the clientConfig has no url; informertest resolves no services")
	}
	address, err := url.Parse(*h.client.URL)
	if err != nil {
		return nil, err
	}
	address.RawQuery = url.Values{"timeout": {h.timeout.String()}}.Encode()
	config := &tls.Config{}
	if len(h.client.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(h.client.CABundle) {
			return nil, errors.New("the caBundle has no certificate")
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	// Without connections that stay, nothing is left when the server closes.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err == nil && response.StatusCode != http.StatusOK { // as the client of kube-apiserver puts it
		err = apierrors.NewGenericServerResponse(response.StatusCode, http.MethodPost, schema.GroupResource{}, "",
			strings.TrimSpace(string(content)), 0, true)
	}
	return content, err
}

// read decodes and checks the response to a request.
func (h webhook) read(answer []byte, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, err
	}
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	response := review.Response
	switch got := review.GroupVersionKind(); {
	case response == nil:
		return nil, errors.New("webhook response was absent")
	case response.UID != request.UID:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", request.UID, response.UID)
	case got != want:
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
	case !h.mutating && (len(response.Patch) > 0 || response.PatchType != nil):
		return nil, errors.New("validating webhook may not return response.patch")
	case len(response.Patch) > 0 && response.PatchType == nil:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case len(response.Patch) > 0 && *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return nil, errors.New("webhook returned response.patch but not response.patchType JSONPatch")
	case len(response.Patch) == 0 && response.PatchType != nil:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	}
	return response, nil
}
