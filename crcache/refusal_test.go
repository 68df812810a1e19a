package crcache_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// single are objects of kinds without a list.
var single = map[schema.GroupVersionKind]client.Object{
	corev1.SchemeGroupVersion.WithKind("Binding"):                         &corev1.Binding{},
	authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):           &authenticationv1.TokenReview{},
	authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"):    &authorizationv1.SubjectAccessReview{},
	autoscalingv1.SchemeGroupVersion.WithKind("Scale"):                    &autoscalingv1.Scale{},
	policyv1.SchemeGroupVersion.WithKind("Eviction"):                      &policyv1.Eviction{},
	authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"): &authorizationv1.SelfSubjectRulesReview{},
}

// A kind without a list type is refused at once, before the start of the cache and after, with the error of controller-runtime. It keeps
// the cache from nothing.
// Guarantees: P6
func TestKindWithoutAListIsRefused(t *testing.T) {
	known := mapper().(*meta.DefaultRESTMapper)
	for gvk := range single {
		known.Add(gvk, meta.RESTScopeNamespace)
	}
	texts := map[string]string{} // of the first cache, controller-runtime's
	for _, impl := range caches {
		t.Run(impl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				c := impl.create(w, cache.Options{Mapper: known})
				check := func(when string) {
					ctx, cancel := contextWithTimeout(t)
					defer cancel()
					for gvk, obj := range single {
						key := client.ObjectKey{Namespace: "a", Name: "x"}
						_, informer := c.GetInformer(ctx, obj)
						_, ofKind := c.GetInformerForKind(ctx, gvk)
						errs := map[string]error{
							"Get":                 c.Get(ctx, key, obj.DeepCopyObject().(client.Object)),
							"GetInformer":         informer,
							"GetInformerForKind":  ofKind,
							"IndexField":          c.IndexField(ctx, obj, "f", func(client.Object) []string { return nil }),
							"Get of a typed read": nil, "NewIndex": nil, "WaitForObject": nil,
						}
						if impl.name != controllerRuntime {
							_, errs["Get of a typed read"] = crcache.Get[*corev1.Binding](ctx, c, key)
							_, errs["NewIndex"] = crcache.NewIndex(ctx, c, func(*corev1.Binding) []string { return nil })
							errs["WaitForObject"] = crcache.WaitForObject(ctx, c, obj)
						}
						for call, err := range errs {
							if err == nil && impl.name == controllerRuntime {
								continue
							}
							if !runtime.IsNotRegisteredError(err) {
								t.Errorf("%s, %s of %s: %v", when, call, gvk.Kind, err)
							}
						}
						if text := texts[gvk.Kind]; text == "" {
							texts[gvk.Kind] = errs["Get"].Error()
						} else if errs["Get"].Error() != text {
							t.Errorf("%s: %q, controller-runtime says %q", gvk.Kind, errs["Get"], text)
						}
					}
				}
				if check("before the start"); t.Failed() {
					w.server.Close()
					return // the cache would not sync
				}
				stop := w.start(c)
				check("after the start")
				ctx, cancel := contextWithTimeout(t)
				defer cancel()
				if !c.WaitForCacheSync(ctx) {
					t.Error("the cache does not sync")
				}
				stop()
				w.server.Close()
			})
		})
	}
}

// createOnly are kinds of resources that a client can create, and nothing else. kube-apiserver answers a list of
// LocalSubjectAccessReviews with 404, since it has no path for those of all namespaces, and one of the others with 405.
var createOnly = map[schema.GroupVersionKind]meta.RESTScope{
	authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):             meta.RESTScopeRoot,
	authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"):      meta.RESTScopeRoot,
	authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"): meta.RESTScopeNamespace,
}

// Reads of a resource without lists, as unstructured objects or metadata, are refused at once, without a retry: the scheme does not know
// these kinds, but the server says so. controller-runtime waits until the context ends.
// Guarantees: P6, P3
func TestResourceWithoutListsIsRefused(t *testing.T) {
	known := mapper().(*meta.DefaultRESTMapper)
	for gvk, scope := range createOnly {
		known.Add(gvk, scope)
	}
	for _, impl := range caches {
		t.Run(impl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				informertest.RegisterReviews(w.server)
				c := impl.create(w, cache.Options{Mapper: known})
				stop := w.start(c)
				for gvk := range createOnly {
					key := client.ObjectKey{Namespace: "a", Name: "x"}
					var u unstructured.Unstructured
					u.SetGroupVersionKind(gvk)
					var all unstructured.UnstructuredList
					all.SetGroupVersionKind(gvk)
					var m metav1.PartialObjectMetadata
					m.SetGroupVersionKind(gvk)
					var many metav1.PartialObjectMetadataList
					many.SetGroupVersionKind(gvk)
					for call, read := range map[string]func(context.Context) error{
						"Get of an unstructured object": func(ctx context.Context) error { return c.Get(ctx, key, &u) },
						"List of unstructured objects":  func(ctx context.Context) error { return c.List(ctx, &all) },
						"Get of metadata":               func(ctx context.Context) error { return c.Get(ctx, key, &m) },
						"List of metadata":              func(ctx context.Context) error { return c.List(ctx, &many) },
					} {
						ctx, cancel := contextWithTimeout(t)
						began := time.Now()
						err := read(ctx)
						took := time.Since(began)
						cancel()
						switch {
						case impl.name == controllerRuntime:
							if !apierrors.IsTimeout(err) || took < time.Minute {
								t.Errorf("%s: %v after %v", gvk.Kind, err, took)
							}
						case !errors.Is(err, informer.ErrNoList) || apierrors.IsNotFound(err) || took > 0:
							t.Errorf("%s of %s: %v after %v", call, gvk.Kind, err, took)
						case !strings.Contains(err.Error(), "has no lists, so no cache can hold "+gvk.Kind):
							t.Errorf("%s of %s: the error does not say what to do: %v", call, gvk.Kind, err)
						}
					}
				}
				stop()
				w.server.Close()
			})
		})
	}
}

// readers read pods or secrets in each way.
var readers = map[string]func(ctx context.Context, c cache.Cache, secrets bool) error{
	"Get": func(ctx context.Context, c cache.Cache, secrets bool) error {
		var obj client.Object = &corev1.Pod{}
		if secrets {
			obj = &corev1.Secret{}
		}
		return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, obj)
	},
	"List": func(ctx context.Context, c cache.Cache, secrets bool) error {
		var list client.ObjectList = &corev1.PodList{}
		if secrets {
			list = &corev1.SecretList{}
		}
		return c.List(ctx, list)
	},
	"unstructured": func(ctx context.Context, c cache.Cache, secrets bool) error {
		var u unstructured.Unstructured
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(map[bool]string{false: "Pod", true: "Secret"}[secrets]))
		return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &u)
	},
	"metadata": func(ctx context.Context, c cache.Cache, secrets bool) error {
		var m metav1.PartialObjectMetadata
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(map[bool]string{false: "Pod", true: "Secret"}[secrets]))
		return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &m)
	},
	"typed Get": func(ctx context.Context, c cache.Cache, secrets bool) (err error) {
		if key := (client.ObjectKey{Namespace: "a", Name: "x"}); secrets {
			_, err = crcache.Get[*corev1.Secret](ctx, c, key)
		} else {
			_, err = crcache.Get[*corev1.Pod](ctx, c, key)
		}
		return err
	},
	"typed List": func(ctx context.Context, c cache.Cache, secrets bool) (err error) {
		if secrets {
			_, err = crcache.List[*corev1.Secret](ctx, c)
		} else {
			_, err = crcache.List[*corev1.Pod](ctx, c)
		}
		return err
	},
	"WaitForObject": func(ctx context.Context, c cache.Cache, secrets bool) error {
		m := metav1.ObjectMeta{Namespace: "a", Name: "x", ResourceVersion: "1"}
		if secrets {
			return crcache.WaitForObject(ctx, c, &corev1.Secret{ObjectMeta: m})
		}
		return crcache.WaitForObject(ctx, c, &corev1.Pod{ObjectMeta: m})
	},
}

// A read does not wait for an informer whose list the server refuses: it returns a 405 at once, the 401, 403 or the absence after the first
// backoff, and at once while the informer waits for its next try. Any other reason comes after ReadTimeout. The informer goes on, so reads succeed
// when the server lists. GetInformer and WaitForCacheSync wait until their context ends, as in controller-runtime.
// Guarantees: P6, P3
func TestReadOfWhatTheServerRefuses(t *testing.T) {
	pods := corev1.Resource("pods")
	for name, test := range map[string]struct {
		fails   error // the answer to lists and watches; nil if the resource is absent
		class   func(error) bool
		late    bool // the read takes ReadTimeout
		atOnce  bool // the read does not even wait for a retry
		options crcache.Options
	}{
		"401":           {fails: apierrors.NewUnauthorized("who?"), class: apierrors.IsUnauthorized},
		"403":           {fails: apierrors.NewForbidden(pods, "", errors.New("no rights")), class: apierrors.IsForbidden},
		"403 on demand": {fails: apierrors.NewForbidden(pods, "", errors.New("no rights")), class: apierrors.IsForbidden, options: podsOnDemand},
		"405":           {fails: apierrors.NewMethodNotSupported(pods, "list"), class: apierrors.IsMethodNotSupported, atOnce: true},
		"absent":        {class: func(err error) bool { return meta.IsNoMatchError(err) && errors.Is(err, informer.ErrAbsent) }},
		"500":           {fails: apierrors.NewInternalError(errors.New("broken")), class: apierrors.IsTimeout, late: true},
	} {
		for call, read := range readers {
			t.Run(name+"/"+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					w.pod("a", "x")
					const timeout = 20 * time.Second
					options := test.options
					options.NoMetrics, options.ReadTimeout = true, timeout
					c := w.cache(cache.Options{}, options)
					stop := w.start(c)
					repair := func() {}
					if test.fails != nil {
						repair = w.server.Inject(informertest.Fault{Match: func(r informertest.Request) bool {
							return r.Resource.Resource == "pods" && r.Verb != "get"
						}, Error: test.fails})
					}
					reading, cancel := context.WithTimeout(t.Context(), time.Hour) // of the bubble
					defer cancel()
					for _, first := range []bool{true, false} {
						began := time.Now()
						err := read(reading, c, test.fails == nil)
						switch took := time.Since(began); {
						case err == nil || !test.class(err) || apierrors.IsNotFound(err):
							t.Errorf("first=%v: %v", first, err)
						case !test.late && !test.atOnce && first && (took == 0 || took > 2*time.Second):
							t.Errorf("the first read took %v", took)
						case !test.late && (test.atOnce || !first) && took > 0:
							t.Errorf("a later read took %v", took)
						case test.late && (took < timeout || took > timeout+time.Second):
							t.Errorf("first=%v: a read took %v", first, took)
						}
					}
					if test.fails != nil {
						ctx, cancel := contextWithTimeout(t)
						defer cancel()
						if _, err := c.GetInformer(ctx, &corev1.Pod{}); !apierrors.IsTimeout(err) || ctx.Err() == nil {
							t.Errorf("GetInformer: %v", err)
						}
						if ctx, cancel := contextWithTimeout(t); c.WaitForCacheSync(ctx) || ctx.Err() == nil {
							t.Error("WaitForCacheSync returns early")
						} else {
							cancel()
						}
						repair()
						<-time.After(time.Minute)
						if err := read(reading, c, false); err != nil {
							t.Errorf("once the server lists: %v", err)
						}
					}
					stop()
					w.server.Close()
				})
			})
		}
	}
}

// A read of a namespace does not wait for another configured namespace, which the server refuses.
// Guarantees: P6
func TestReadBesideAForbiddenNamespace(t *testing.T) {
	for _, impl := range caches {
		t.Run(impl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				w.pod("a", "x")
				w.server.Inject(informertest.Fault{Namespace: "b", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights"))})
				c := impl.create(w, cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}})
				stop := w.start(c)
				w.wantNames(c, []string{"a/x"}, client.InNamespace("a"))
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{}); err != nil {
					t.Error(err)
				}
				ctx, cancel := contextWithTimeout(t)
				defer cancel()
				for call, err := range map[string]error{
					"Get":         c.Get(ctx, client.ObjectKey{Namespace: "b", Name: "x"}, &corev1.Pod{}),
					"List of b":   c.List(ctx, &corev1.PodList{}, client.InNamespace("b")),
					"List of all": c.List(ctx, &corev1.PodList{}),
				} {
					if theirs := impl.name == controllerRuntime; theirs && !apierrors.IsTimeout(err) || !theirs && !apierrors.IsForbidden(err) {
						t.Errorf("%s: %v", call, err)
					}
				}
				stop()
				w.server.Close()
			})
		})
	}
}

// A read of several configured namespaces has one ReadTimeout for all of them.
// Guarantees: P6
func TestReadOfSeveralNamespacesHasOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		const timeout = 20 * time.Second
		w.server.Inject(informertest.Fault{Namespace: "a", Error: apierrors.NewTooManyRequests("later", 15), Times: 1})
		w.server.Inject(informertest.Fault{Namespace: "b", Error: apierrors.NewInternalError(errors.New("broken"))})
		c := w.cache(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, crcache.Options{NoMetrics: true, ReadTimeout: timeout})
		stop := w.start(c)
		began := time.Now()
		err := c.List(t.Context(), &corev1.PodList{})
		if took := time.Since(began); !apierrors.IsTimeout(err) || took < timeout || took > timeout+time.Second {
			t.Errorf("the read took %v: %v", took, err)
		}
		began = time.Now()
		w.wantNames(c, nil, client.InNamespace("a"))
		if took := time.Since(began); took > 0 {
			t.Errorf("the namespace that has listed was read in %v", took)
		}
		stop()
		w.server.Close()
	})
}

// A slow first list is no failure: reads wait for it longer than ReadTimeout.
// Guarantees: P6
func TestReadWaitsForASlowList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("a", "x")
		w.server.Inject(informertest.Fault{BytesPerSecond: 50})
		c := w.cache(cache.Options{HTTPClient: &http.Client{Transport: w.transportOf()}}, crcache.Options{NoMetrics: true, ReadTimeout: time.Second})
		stop := w.start(c)
		began := time.Now()
		w.wantNames(c, []string{"a/x"})
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("the list took %v", took)
		}
		stop()
		w.server.Close()
	})
}

// Errors of a wrong ReadTimeout name it.
func TestNegativeReadTimeout(t *testing.T) {
	w := newWorld(t, false)
	_, err := crcache.New(crcache.Options{ReadTimeout: -1})(w.config(), cache.Options{Mapper: mapper()})
	if err == nil || err.Error() != "crcache.Options.ReadTimeout is -1ns: it must not be negative" {
		t.Error(err)
	}
}
