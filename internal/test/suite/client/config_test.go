package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// secret is content that must never be shown. No float can hold secretNumber.
const (
	secret       = "hunter2-s3cr3t"
	secretNumber = "27182818284590452353602874e999"
)

// leaks returns a part of the secret that text shows: at least five characters, or ten digits, because a time has some too.
func leaks(text string) string {
	for s, n := range map[string]int{secret: 5, secretNumber: 10} {
		for i := range len(s) - n + 1 {
			if part := s[i : i+n]; strings.Contains(text, part) {
				return part
			}
		}
	}
	return ""
}

// checkError checks that err and the errors that it wraps neither show nor keep the secret.
func checkError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, err); leaks(text) != "" {
			t.Errorf("%s shows content: %.500s", what, text)
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		checkError(t, what, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			checkError(t, what, e)
		}
	}
}

// quoting is a type whose own methods quote their input in errors.
type quoting string

func (*quoting) UnmarshalJSON(b []byte) error { return fmt.Errorf("cannot use %s", b) }

type quotingText string

func (*quotingText) UnmarshalText(b []byte) error { return fmt.Errorf("cannot use %s", b) }

// vault has a field of every kind that can fail to decode.
type vault struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Count  int32               `json:"count"`
		Float  float32             `json:"float"`
		At     metav1.Time         `json:"at"`
		Exact  *metav1.MicroTime   `json:"exact"`
		Wait   metav1.Duration     `json:"wait"`
		Size   resource.Quantity   `json:"size"`
		Port   intstr.IntOrString  `json:"port"`
		Counts map[string]int      `json:"counts"`
		Lists  map[string][]string `json:"lists"`
		Bytes  []byte              `json:"bytes"`
		Any    any                 `json:"any"`
		Own    quoting             `json:"own"`
		Text   quotingText         `json:"text"`
		Parts  []struct {
			Count int `json:"count"`
		} `json:"parts"`
	} `json:"spec"`
}

// brokenJSON has parts of objects. At least one of the types rejects each of them.
var brokenJSON = []string{
	`"data":"$"`, `"data":{"$":5}`, `"data":{"a":{"$":1}}`, `"data":{"a":"$!"}`, `"type":{"$":"$"}`, `"immutable":"$"`,
	`"stringData":["$"]`,
	`"spec":"$"`, `"spec":{"count":"$"}`, `"spec":{"count":#}`, `"spec":{"float":#}`, `"spec":{"at":"$"}`, `"spec":{"exact":"$"}`,
	`"spec":{"wait":"$"}`, `"spec":{"size":"$"}`, `"spec":{"port":#}`, `"spec":{"port":{"$":1}}`, `"spec":{"counts":{"$":"$"}}`,
	`"spec":{"lists":{"$":["$",{"$":"$"}]}}`, `"spec":{"bytes":"$"}`, `"spec":{"any":#}`, `"spec":{"any":{"$":#}}`,
	`"spec":{"own":"$"}`, `"spec":{"text":"$"}`, `"spec":{"parts":[{"count":1},{"count":"$"}]}`,
	`"a":{"$" "$"}`, `"a":"$\q"`, `"a":"\ud800$\u12"`, `"a":$`, `"$":[1,}`, `"$":-`, "\"a\":\"$\x01\"", `"$":tru`, `"a":{"$":{]}}`,
}

// jsonObjects returns the broken parts as objects.
func jsonObjects() (objects []string) {
	for i, broken := range brokenJSON {
		broken = strings.NewReplacer("$", secret, "#", secretNumber).Replace(broken)
		objects = append(objects, fmt.Sprintf(`{"metadata":{"namespace":"ns","name":"broken-%d","uid":"u","resourceVersion":"3","annotations":{"a":"%s"}},%s}`, i, secret, broken))
	}
	return objects
}

// protobufObjects returns a Secret, changed by one byte or truncated in many places.
func protobufObjects(t *testing.T) (objects []string) {
	whole := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "broken", UID: "u", ResourceVersion: "3", Annotations: map[string]string{secret: secret}},
		Data:       map[string][]byte{secret: []byte(secret), "password": []byte(secret)},
		Type:       secret,
	}
	raw, err := whole.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	meta, err := whole.ObjectMeta.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for i := len(meta) + 2; i < len(raw); i++ { // after the metadata
		for _, b := range []byte{0, 0x07, 0x0f, 0x7f, 0xff} {
			objects = append(objects, string(raw[:i])+string(b)+string(raw[i+1:]))
		}
		objects = append(objects, string(raw[:i]))
	}
	return objects
}

func field(number int, content string) string {
	return string(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3|2)), uint64(len(content)))) + content
}

// secretListHead is the envelope of a SecretList in protobuf, up to the list.
var secretListHead = "k8s\x00" + field(1, field(1, "v1")+field(2, "SecretList"))

// protobufFrame returns a watch frame with an object in an envelope.
func protobufFrame(event, envelope, object string) string {
	message := field(1, event) + field(2, field(1, envelope+field(2, object)))
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
}

// spilling is a response with content in an unexpected place.
type spilling struct{ verb, contentType, body string }

var spills = map[string]spilling{
	"list metadata":         {"list", world.JSONType, `{"kind":"SecretList","metadata":{"resourceVersion":{"$":1}},"items":[]}`},
	"list metadata text":    {"list", world.JSONType, `{"kind":"SecretList","metadata":"$","items":[]}`},
	"list continue":         {"list", world.JSONType, `{"kind":"SecretList","metadata":{"remainingItemCount":"$"},"items":[]}`},
	"list kind":             {"list", world.JSONType, `{"kind":{"$":"$"},"items":[]}`},
	"object for a list":     {"list", world.JSONType, `{"kind":"Secret","metadata":{"name":"a","generation":"$"},"data":{"$":"$"}}`},
	"list broken off":       {"list", world.JSONType, `{"items":[{"data":{"$":"$"`},
	"items without commas":  {"list", world.JSONType, `{"items":[{"data":{"$":"$"}}"$"]}`},
	"list garbage":          {"list", world.JSONType, `{"items":[{"$":1}],$}`},
	"Status with content":   {"list", world.JSONType, `{"kind":"Status","status":"Failure","code":"$"}`},
	"protobuf list":         {"list", world.ProtobufType, world.ProtoHead + "\x20" + "\x0a\x1e\x0a" + "\x10" + "$" + "\x12\x0c"},
	"protobuf garbage":      {"list", world.ProtobufType, world.ProtoHead + "\x10" + "\x12\x0e" + "$"},
	"error event of Secret": {"watch", world.JSONType, `{"type":"ERROR","object":{"kind":"Secret","metadata":{"name":"a"},"data":{"$":"$"}}}`},
	"error event of Event":  {"watch", world.JSONType, `{"type":"ERROR","object":{"kind":"Event","metadata":{"name":"a"},"message":"$","reason":"$"}}`},
	"error event broken":    {"watch", world.JSONType, `{"type":"ERROR","object":{"kind":"Status","status":{"$":"$"},"code":"$"}}`},
	"error event syntax":    {"watch", world.JSONType, `{"type":"ERROR","object":{"kind":"Status","$":"$\q"}}`},
	"event of no type":      {"watch", world.JSONType, `{"type":"$","object":{"data":"$"}}`},
	"event of a string":     {"watch", world.JSONType, `{"type":"BOOKMARK","object":"$"}`},
	"bookmark":              {"stream", world.JSONType, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"$":["$"]}}}}`},
	"events without braces": {"watch", world.JSONType, `{"type":"ADDED","object":{"data":"$"}}"$"`},
	"object for an event":   {"watch", world.JSONType, `{"kind":"Secret","data":{"$":"$"}}`},
	"protobuf error event":  {"watch", world.ProtobufType, protobufFrame("ERROR", "k8s\x00", field(1, field(1, "a"))+field(3, field(3, secret))+field(2, secret))},
	"protobuf error pod":    {"watch", world.ProtobufType, protobufFrame("ERROR", "k8s\x00", field(1, field(1, "a"))+field(3, secret)+field(4, secret))},
	"protobuf no type":      {"watch", world.ProtobufType, protobufFrame("$", "k8s\x00", field(1, field(1, "a"))+field(2, secret))},
	"protobuf no envelope":  {"watch", world.ProtobufType, protobufFrame("ADDED", secret, field(2, secret))},
	"protobuf bare object":  {"watch", world.ProtobufType, "\x00\x00\x00\x26" + field(1, field(1, secret)) + field(2, field(1, secret)+"\x12\x02")},
}

// Logs, statuses and errors show no content of an object, which may be secret. Only OnDecodeError gets its bytes.
// Guarantees: R17, R22
func TestContentIsShownToNobody(t *testing.T) {
	t.Run("Secret", func(t *testing.T) { spillsNothing[*corev1.Secret](t, 12) })
	t.Run("unstructured", func(t *testing.T) { spillsNothing[*unstructured.Unstructured](t, 8) })
	t.Run("own", func(t *testing.T) { spillsNothing[*vault](t, 20) })
	t.Run("metadata", func(t *testing.T) { spillsNothing[*metav1.PartialObjectMetadata](t, 0) })
}

func spillsNothing[T informer.Object](t *testing.T, least int) {
	_, own := any(*new(T)).(*vault)
	_, dynamic := any(*new(T)).(*unstructured.Unstructured)
	generated := !own && !dynamic
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		objects := jsonObjects()
		if media == world.ProtobufType {
			if !generated {
				continue
			}
			objects = protobufObjects(t)
		}
		for _, verb := range []string{"list", "stream", "watch"} {
			t.Run(strings.TrimPrefix(media, "application/")+","+verb, func(t *testing.T) {
				failed := spill[T](t, spilling{verb, media, answerWith(verb, media, objects)})
				if failed < least {
					t.Errorf("%d objects could not be decoded, want %d at least", failed, least)
				}
			})
		}
	}
	for name, s := range spills {
		if s.contentType == world.ProtobufType && !generated {
			continue
		}
		s.body = strings.ReplaceAll(s.body, "$", secret)
		t.Run(name, func(t *testing.T) { spill[T](t, s) })
	}
}

// answerWith returns the body of a list of objects, or of a watch that adds them.
func answerWith(verb, media string, objects []string) string {
	if verb == "list" && media == world.JSONType {
		return `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[` + strings.Join(objects, ",") + "]}"
	}
	var body strings.Builder
	for _, object := range objects {
		switch {
		case verb == "list":
			body.WriteString(field(2, object))
		case media == world.JSONType:
			fmt.Fprintf(&body, `{"type":"ADDED","object":%s}`+"\n", object)
		default:
			body.WriteString(protobufFrame("ADDED", "k8s\x00", object))
		}
	}
	if verb == "list" {
		list := field(1, field(2, "2")) + body.String()
		return secretListHead + field(2, list)
	}
	return body.String()
}

// spill makes a server send the same bad response each time, and looks for its content in errors, logs and statuses. It
// returns the number of objects that could not be decoded.
func spill[T informer.Object](t *testing.T, s spilling) (failures int) {
	reply := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", s.contentType)
		verb := "list"
		if world.AsksToStream(r) {
			verb = "stream"
		} else if world.AsksToWatch(r) {
			verb = "watch"
		}
		switch {
		case verb == s.verb:
			io.WriteString(w, s.body)
		case verb == "list" && s.contentType == world.JSONType:
			io.WriteString(w, `{"kind":"SecretList","metadata":{"resourceVersion":"2"},"items":[]}`)
		case verb == "list":
			io.WriteString(w, secretListHead+field(2, field(1, field(2, "2"))))
		}
		if verb != "list" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		return true
	}
	world.Bubble(t, func(w world.World) {
		w.Answer(reply)
		var log testkit.Log
		var reported int
		config := informer.Config[T]{
			PagedList: s.verb != "stream",
			Logger:    slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			OnDecodeError: func(err *informer.DecodeError) {
				reported++
				checkError(w.T, "the error for OnDecodeError", err.Err)
				if text := err.Error(); leaks(text) != "" {
					w.Errorf("the error's text shows content: %s", text)
				}
				if !bytes.Contains(err.Raw, []byte(secret[:4])) {
					w.Errorf("OnDecodeError got %q", err.Raw)
				}
			},
		}
		client := w.Client(func(c *rest.Config) { c.ContentType = s.contentType })
		inf := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}, config)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		synctest.Wait()
		wait, cancelWait := context.WithTimeout(ctx, 5*time.Second)
		defer cancelWait()
		err := inf.WaitSynced(wait)
		checkError(w.T, "the error of WaitSynced", err)
		checkError(w.T, "the error of WaitFor", inf.WaitForResourceVersion(wait, "99"))
		status := inf.Status()
		r := status.Reflectors[0]
		checkError(w.T, "LastError", r.LastError)
		for what, text := range map[string]string{"log": log.String(), "status": fmt.Sprintf("%v %+v", status, status), "encoded status": asJSON(w.T, status)} {
			if leaks(text) != "" {
				i := strings.Index(text, leaks(text))
				w.Errorf("the %s shows content: ...%s", what, text[max(0, i-300):min(len(text), i+100)])
			}
		}
		if failed := (*informer.DecodeError)(nil); errors.As(r.LastError, &failed) && failed.Raw != nil {
			w.Errorf("LastError keeps %d bytes", len(failed.Raw))
		}
		failures = r.DecodeErrors
		if reported != failures {
			w.Errorf("%d decode errors, %d reported", failures, reported)
		}
		if s.verb == "stream" && err == nil {
			w.Error("synced without a bookmark")
		}
		if failures == 0 && r.LastError == nil && !strings.Contains(s.body, "broken") {
			w.Error("the response had no fault")
		}
		cancel()
		<-ended
	})
	return failures
}

func asJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A status keeps only the name of an object, cut to the length that a valid name can have.
// Guarantees: R17
func TestStatusKeepsNamesShort(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	s := spilling{"watch", world.JSONType, `{"type":"ADDED","object":{"metadata":{"namespace":"` + long + `","name":"` + long + `","resourceVersion":"3"},"data":"` + secret + `"}}`}
	var log testkit.Log
	world.Bubble(t, func(w world.World) {
		w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", world.JSONType)
			if !world.AsksToWatch(r) {
				io.WriteString(w, `{"kind":"SecretList","metadata":{"resourceVersion":"2"},"items":[]}`)
				return true
			}
			io.WriteString(w, s.body)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		})
		config := informer.Config[*corev1.Secret]{PagedList: true, Logger: log.Logger()}
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}, config)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		failed := (*informer.DecodeError)(nil)
		if err := inf.Status().Reflectors[0].LastError; !errors.As(err, &failed) || len(failed.Key.Namespace) != 300 || len(failed.Key.Name) != 300 {
			w.Errorf("LastError: %.2000v", err)
		}
		if n := len(log.String()); n > 5_000 {
			w.Errorf("the log has %d bytes", n)
		}
	})
}

// New rejects a WarmStartConfig that would be unsafe.
// Guarantees: S4
func TestWarmStartConfigIsChecked(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := informer.Resource{GroupVersionResource: world.PodGVR}
		in := informer.WarmStartConfig{Storage: informer.WarmStartDir(t.TempDir())}
		with := func(change func(*informer.WarmStartConfig)) informer.WarmStartConfig {
			c := in
			change(&c)
			return c
		}
		secrets := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
		check := func(err error, want string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %s", err, want)
			}
		}
		runPod := func(r informer.Resource, config informer.Config[*corev1.Pod]) error {
			config.Logger = world.Quiet[*corev1.Pod]().Logger
			ctx, cancel := context.WithCancel(w.Context())
			cancel()
			return informer.New(w.Client(), r, config).Run(ctx)
		}
		check(runPod(pods, informer.Config[*corev1.Pod]{WarmStart: with(func(c *informer.WarmStartConfig) { c.Interval = -1 })}), "Config.WarmStart.Interval")
		check(runPod(pods, informer.Config[*corev1.Pod]{WarmStart: with(func(c *informer.WarmStartConfig) { c.MaxAge = -1 })}), "Config.WarmStart.MaxAge")
		for _, layout := range world.Layouts {
			transform := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
			check(runPod(pods, informer.Config[*corev1.Pod]{Layout: layout, WarmStart: in, Transform: transform}), "Config.WarmStart.Revision")
			check(runPod(pods, informer.Config[*corev1.Pod]{Layout: layout, WarmStart: in, Filter: func(*metav1.PartialObjectMetadata) bool { return true }}), "Config.WarmStart.Revision")
			check(runPod(secrets, informer.Config[*corev1.Pod]{Layout: layout, WarmStart: in}), "Config.WarmStart.Secrets")
			allowed := with(func(c *informer.WarmStartConfig) { c.Secrets = true })
			if err := runPod(secrets, informer.Config[*corev1.Pod]{Layout: layout, WarmStart: allowed}); !errors.Is(err, context.Canceled) {
				t.Errorf("with Secrets: %v", err)
			}
			other := informer.Config[*corev1.Secret]{Layout: layout, WarmStart: in, Logger: world.Quiet[*corev1.Pod]().Logger}
			check(informer.New(w.Client(), pods, other).Run(w.Context()), "Config.WarmStart.Secrets")
			metadata := informer.Config[*metav1.PartialObjectMetadata]{Layout: layout, WarmStart: in, Logger: world.Quiet[*corev1.Pod]().Logger}
			check(informer.New(w.Client(), secrets, metadata).Run(w.Context()), "Config.WarmStart.Secrets")
		}
		_, err := informer.NewReflector(w.Client(), pods, informer.NewFIFO[*corev1.Pod](0), informer.Config[*corev1.Pod]{WarmStart: in})
		check(err, "Config.WarmStart")
	})
}

func TestInvalidResourceNamesTheField(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for want, r := range map[string]informer.Resource{
			"Resource.Resource is empty":                       {},
			"Resource.Version of pods is empty":                {GroupVersionResource: world.PodGVR.GroupResource().WithVersion("")},
			`"../../secrets"`:                                  {GroupVersionResource: corev1.SchemeGroupVersion.WithResource("../../secrets")},
			"Resource.Namespaces[1] of pods is empty":          {GroupVersionResource: world.PodGVR, Namespaces: []string{"a", ""}},
			`Resource.Namespaces[1] of pods repeats "a"`:       {GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "a"}},
			"Resource.LabelSelector of pods":                   {GroupVersionResource: world.PodGVR, LabelSelector: "a in"},
			"Resource.FieldSelector of pods: invalid selector": {GroupVersionResource: world.PodGVR, FieldSelector: "a"},
		} {
			inf := informer.New(w.Client(), r, world.Quiet[*corev1.Pod]())
			if err := inf.Run(w.Context()); err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("Run: %v, want %s", err, want)
			}
		}
	})
}
