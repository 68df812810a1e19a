package informertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer"
)

var tokenKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

var tokenSubresource = subresource{
	name:  "token",
	kind:  tokenKind,
	verbs: createVerb,
	serve: (*collection).serveToken,
}

// audience is that of the tokens that the server itself accepts, and their issuer.
const audience = "https://kubernetes.default.svc"

// serveToken issues a token of a service account. If the server has users, it accepts the token until that expires.
func (c *collection) serveToken(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	request := &authenticationv1.TokenRequest{}
	if err := readCreate(r, req, request, &opts); err != nil {
		return err
	}
	account, ok := c.cache.Get(req.key())
	if !ok {
		return apierrors.NewNotFound(c.resource.GroupResource(), req.Name)
	}
	now := metav1.Now().Rfc3339Copy()
	if err := completeTokenRequest(request, account, now); err != nil {
		return err
	}
	bound, err := c.server.boundTo(request.Spec.BoundObjectRef, req.Namespace)
	if err != nil {
		return err
	}
	request.Status.ExpirationTimestamp = metav1.NewTime(
		now.Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
	if request.Status.Token, err = c.server.sign(tokenClaims(request, account, bound)); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	if c.server.users != nil && slices.Contains(request.Spec.Audiences, audience) {
		c.server.users.add(request.Status.Token, credential{
			user:    serviceAccountUser(request, account, bound),
			expires: request.Status.ExpirationTimestamp.Time,
		})
	}
	writeTyped(w, r, http.StatusCreated, tokenKind, request)
	return nil
}

// completeTokenRequest checks a request for a token of that account, and fills in what it omits.
func completeTokenRequest(request *authenticationv1.TokenRequest, account object, now metav1.Time) error {
	kind := tokenKind.GroupKind()
	metadata, spec := field.NewPath("metadata"), field.NewPath("spec")
	var errs field.ErrorList
	if request.Name != "" && request.Name != account.GetName() {
		errs = append(errs, field.Invalid(metadata.Child("name"), request.Name,
			"must match the service account name if specified"))
	}
	if request.Namespace != "" && request.Namespace != account.GetNamespace() {
		errs = append(errs, field.Invalid(metadata.Child("namespace"), request.Namespace,
			"must match the service account namespace if specified"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind, account.GetName(), errs)
	}
	request.Name, request.Namespace, request.UID = account.GetName(), account.GetNamespace(), account.GetUID()
	request.CreationTimestamp = now
	request.Status = authenticationv1.TokenRequestStatus{}
	if len(request.Spec.Audiences) == 0 {
		request.Spec.Audiences = []string{audience}
	}
	if request.Spec.ExpirationSeconds == nil {
		request.Spec.ExpirationSeconds = new(int64)
		*request.Spec.ExpirationSeconds = 60 * 60
	}
	switch seconds := *request.Spec.ExpirationSeconds; {
	case seconds < 10*60:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), seconds,
			"may not specify a duration less than 10 minutes"))
	case seconds > 1<<32:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), seconds,
			"may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind, "", errs)
	}
	return nil
}

// boundTo returns the object that a token is bound to, or nil.
func (s *Server) boundTo(ref *authenticationv1.BoundObjectReference, namespace string) (object, error) {
	if ref == nil {
		return nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource := map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"}[gvk.Kind]
	if gvk.Group != "" || resource == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	s.mu.Lock()
	c := s.collections[schema.GroupVersionResource{Version: "v1", Resource: resource}]
	s.mu.Unlock()
	key := informer.Key{Namespace: namespace, Name: ref.Name}
	if gvk.Kind == "Node" {
		key.Namespace = ""
	}
	var obj object
	ok := false
	if c != nil {
		obj, ok = c.cache.Get(key)
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, ref.Name)
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	ref.UID = obj.GetUID()
	return obj, nil
}

// serviceAccountUser returns the user of a token for a service account. bound may be nil.
func serviceAccountUser(request *authenticationv1.TokenRequest, account, bound object) authenticationv1.UserInfo {
	user := authenticationv1.UserInfo{
		Username: serviceAccount + account.GetNamespace() + ":" + account.GetName(),
		UID:      string(account.GetUID()),
		Groups:   []string{serviceAccounts, serviceAccounts + ":" + account.GetNamespace()},
	}
	if bound != nil && request.Spec.BoundObjectRef.Kind == "Pod" {
		user.Extra = map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {bound.GetName()},
			"authentication.kubernetes.io/pod-uid":  {string(bound.GetUID())},
		}
	}
	return user
}

// tokenClaims returns the claims of a token, as kube-apiserver's.
func tokenClaims(request *authenticationv1.TokenRequest, account, bound object) map[string]any {
	named := func(obj object) map[string]any { return map[string]any{"name": obj.GetName(), "uid": obj.GetUID()} }
	kubernetes := map[string]any{"namespace": account.GetNamespace(), "serviceaccount": named(account)}
	if bound != nil {
		kubernetes[map[string]string{"Pod": "pod", "Secret": "secret", "Node": "node"}[request.Spec.BoundObjectRef.Kind]] =
			named(bound)
	}
	issued := request.CreationTimestamp.Unix()
	return map[string]any{
		"iss":           audience,
		"aud":           request.Spec.Audiences,
		"sub":           serviceAccount + account.GetNamespace() + ":" + account.GetName(),
		"jti":           uuid.NewUUID(),
		"iat":           issued,
		"nbf":           issued,
		"exp":           request.Status.ExpirationTimestamp.Unix(),
		"kubernetes.io": kubernetes,
	}
}

// sign returns a JSON Web Token with these claims, signed by the server's authority, or else by a key that nobody has.
func (s *Server) sign(claims map[string]any) (string, error) {
	var key *ecdsa.PrivateKey
	if s.users != nil {
		key = s.users.authority.key
	} else {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return "", err
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(text))
	r, sum, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	signature := append(r.FillBytes(make([]byte, 32)), sum.FillBytes(make([]byte, 32))...)
	return text + "." + encode(signature), nil
}
