package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// differences are the requests that informertest answers differently from kube-apiserver, with the reasons. A key is a request,
// or a resource and a request. If both answer alike, the test fails, and the entry must be removed.
var differences = map[string]string{
	"pods ?fieldSelector=status.phase%3DPending":      noDefaults,
	"pods ?fieldSelector=spec.restartPolicy%3DAlways": noDefaults,
	"pods /a/log":                                   "no kubelet to ask",
	"? as yaml":                                     noYAML,
	"?watch=1&resourceVersion={s3} as yaml":         noYAML,
	"?watch=1&resourceVersion={s3} as metadatas":    "kube-apiserver returns 200 and then breaks off, because it finds no list to send; a 406 gives the reason",
	"/api/v1/namespaces/{namespace}/nosuch":         noStatus,
	"/api/v1/namespaces/{namespace}/nosuch?watch=1": noStatus,
	"/api/v1/nosuch":                                noStatus,
	"/api/v2/{resource}":                            noStatus,
	"/a/nosuch":                                     noStatus,
	"PUT ?":                                         "405 too, but the Status names the resource",
	"PATCH ?":                                       "405 too, but the Status names the resource",
	"POST /api/v1/namespaces/{namespace}/{resource}/a":                    "405 too, but the Status names the resource",
	"/api/v1/watch/namespaces/{namespace}/{resource}?resourceVersion=abc": "deprecated since Kubernetes 1.11: not served",
}

const (
	noDefaults = "no defaults: kube-apiserver fills in the field"
	noYAML     = "no YAML; a client that accepts nothing else gets a 406"
	noStatus   = "404 too, but in plain text, as from kube-apiserver outside the groups that it knows"
)

// batteryRequests are sent to both sides for every resource.
const batteryRequests = `
?
?resourceVersion=
?resourceVersion=0
?resourceVersion=0&limit=1
?resourceVersion=0&resourceVersionMatch=NotOlderThan
?resourceVersion={base}
?resourceVersion={s2}
?resourceVersion={now}
?resourceVersion={s3}&resourceVersionMatch=NotOlderThan
?resourceVersion={now}&resourceVersionMatch=NotOlderThan
?resourceVersion={old1}&resourceVersionMatch=NotOlderThan
?resourceVersion={base}&resourceVersionMatch=Exact
?resourceVersion={s1}&resourceVersionMatch=Exact
?resourceVersion={s4}&resourceVersionMatch=Exact
?resourceVersion={now}&resourceVersionMatch=Exact
?resourceVersion={old1}&resourceVersionMatch=Exact
?resourceVersion={old1}
?resourceVersion={old1}&limit=1
?resourceVersion={s4}&limit=2
?resourceVersion={future}
?resourceVersion={future}&resourceVersionMatch=NotOlderThan
?resourceVersion={future}&resourceVersionMatch=Exact
?resourceVersion={future}&limit=1
?resourceVersion=abc
?resourceVersion=-1
?resourceVersion=99999999999999999999
?resourceVersion=abc&resourceVersionMatch=Exact
?resourceVersionMatch=Exact
?resourceVersionMatch=NotOlderThan
?resourceVersion=0&resourceVersionMatch=Exact
?resourceVersion={s2}&resourceVersionMatch=Sometimes
?resourceVersionMatch=Sometimes
?limit=2
?limit=100
?limit=0
?limit=-1
?limit=abc
?limit=1&labelSelector=app%3Dx
?limit=1&fieldSelector=metadata.name%3Da
?limit=1&labelSelector=app%3Dnone
?limit=2&resourceVersion={s4}&resourceVersionMatch=Exact
?limit=2&resourceVersion={s4}&resourceVersionMatch=NotOlderThan
?continue={fresh}
?continue={fresh}&limit=1
?continue={fresh}&limit=1&labelSelector=app%3Dx
?continue={fresh}&resourceVersion=0
?continue={fresh}&resourceVersion={s2}
?continue={fresh}&resourceVersionMatch=Exact
?continue={fresh}&resourceVersionMatch=NotOlderThan&resourceVersion=0
?continue={exact}
?continue={expired}
?continue={expired}&limit=1
?continue={resumed}
?continue={resumed}&limit=1
?continue=abc
?continue=%25
?continue={wrongversion}
?continue={norv}
?continue={nostart}
?continue={escape}
?labelSelector=app%3Dx
?labelSelector=app
?labelSelector=!app
?labelSelector=app+in+(x,y)
?labelSelector=app+notin+(x)
?labelSelector=app!%3Dx
?labelSelector=app%3D%3D%3Dx
?labelSelector=app+in+
?labelSelector=%25
?labelSelector=app%3Dnone
?labelSelector=app%3D-x-
?fieldSelector=metadata.name%3Da
?fieldSelector=metadata.name!%3Da
?fieldSelector=metadata.name%3Da,metadata.namespace%3D{namespace}
?fieldSelector=metadata.namespace%3Delsewhere
?fieldSelector=metadata.name%3Dnone
?fieldSelector=metadata.uid%3Da
?fieldSelector=metadata.name
?fieldSelector=%3D%3D
?fieldSelector=metadata.name%3Da%3Db
?fieldSelector=spec.nosuch%3Da
?labelSelector=app%3Dx&fieldSelector=metadata.name%3De
?timeoutSeconds=5
?timeoutSeconds=abc
?watch=abc
?watch=false
?allowWatchBookmarks=true
?sendInitialEvents=true
?sendInitialEvents=true&resourceVersionMatch=NotOlderThan
?nosuch=parameter
?pretty=false
/api/v1/{resource}?labelSelector=app&fieldSelector=metadata.namespace%3D{namespace}
/api/v1/{resource}?fieldSelector=metadata.namespace%3D{namespace},metadata.name%3Da
/api/v1/namespaces/nosuch/{resource}

? as json
? as protobuf
? as any
? as both
? as preferences
? as metadatas
? as metadata
? as protobufmetadatas
? as table
? as tableorjson
? as protobuftable
?includeObject=None as table
?includeObject=Metadata as table
?includeObject=Object as table
?includeObject=All as table
?includeObject=None
?limit=2 as table
?fieldSelector=metadata.name%3Dnone as table
?resourceVersion={s1}&resourceVersionMatch=Exact as table
?resourceVersion=abc as table
? as yaml
? as text
? as nonsense
?limit=2 as protobuf
?limit=1 as metadatas
?resourceVersion={old1}&resourceVersionMatch=Exact as protobuf
?resourceVersion=abc as protobuf
?resourceVersion=abc as metadatas
?resourceVersion=abc as text

/a
/a as protobuf
/a as metadata
/a as metadatas
/a as protobufmetadata
/a as table
/a?includeObject=None as table
/a?includeObject=Object as table
/nosuch as table
/a as text
/a?resourceVersion=0
/a?resourceVersion={now}
/a?resourceVersion={future}
/a?resourceVersion={old1}
/a?resourceVersion=abc
/nosuch
/nosuch as protobuf
/nosuch as metadata
/nosuch as text
/a/nosuch
/api/v1/namespaces/{namespace}/nosuch
/api/v1/nosuch
/api/v2/{resource}
/apis/nosuch.example.com/v1/things
/apis/nosuch.example.com/v1/namespaces/{namespace}/things/a
/api/v1/namespaces/{namespace}/nosuch?watch=1
POST /api/v1/namespaces/{namespace}/{resource}/a
PUT ?
PATCH ?

?watch=1
?watch=true
?watch=1&resourceVersion=0
?watch=1&resourceVersion={base}
?watch=1&resourceVersion={s3}
?watch=1&resourceVersion={now}
?watch=1&resourceVersion={old1}
?watch=1&resourceVersion={old1} as protobuf
?watch=1&resourceVersion={old1}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan
?watch=1&resourceVersion={future}
?watch=1&resourceVersion=abc
?watch=1&resourceVersion=-1
?watch=1&resourceVersion={s3}&resourceVersionMatch=NotOlderThan
?watch=1&resourceVersion={s3}&resourceVersionMatch=Exact
?watch=1&resourceVersionMatch=NotOlderThan
?watch=1&resourceVersion=0&resourceVersionMatch=NotOlderThan
?watch=1&sendInitialEvents=true
?watch=1&sendInitialEvents=true&resourceVersion=0
?watch=1&sendInitialEvents=true&allowWatchBookmarks=true
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan
?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion={now}
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true as protobuf
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true as metadata
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion={s3}
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion={old1}
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion={future}
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=app%3Dx
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone
?watch=1&sendInitialEvents=false
?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan
?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0
?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={s3}
?watch=1&sendInitialEvents=abc
?watch=1&allowWatchBookmarks=true
?watch=1&allowWatchBookmarks=true&resourceVersion=0
?watch=1&allowWatchBookmarks=true&resourceVersion={s3}
?watch=1&allowWatchBookmarks=true&resourceVersion={s3} as protobuf
?watch=1&allowWatchBookmarks=true&resourceVersion={s3} as metadata
?watch=1&allowWatchBookmarks=true&resourceVersion={s3}&fieldSelector=metadata.name%3Dnone
?watch=1&allowWatchBookmarks=true&resourceVersion={s3}&timeoutSeconds=1
?watch=1&resourceVersion={s3}&timeoutSeconds=2
?watch=1&resourceVersion={s3}&timeoutSeconds=abc
?watch=1&labelSelector=app%3Dx
?watch=1&labelSelector=app%3Dx&resourceVersion={base}
?watch=1&labelSelector=app%3Dx&resourceVersion={base} as protobuf
?watch=1&labelSelector=app%3Dx&resourceVersion={base} as metadata
?watch=1&labelSelector=app%3Dy&resourceVersion={base}
?watch=1&labelSelector=app!%3Dx&resourceVersion={base}
?watch=1&fieldSelector=metadata.name%3Da&resourceVersion={base}
?watch=1&fieldSelector=metadata.name%3Da,metadata.namespace%3D{namespace}&labelSelector=app%3Dx&resourceVersion={base}
?watch=1&labelSelector=app%3D%3D%3Dx
?watch=1&fieldSelector=spec.nosuch%3Da
?watch=1&limit=1&resourceVersion={s3}
?watch=1&limit=-1
?watch=1&continue={fresh}
?watch=1&resourceVersion={s3} as both
?watch=1&resourceVersion={s3} as protobufmetadata
?watch=1&resourceVersion={s3} as metadatas
?watch=1&resourceVersion={s3} as table
?watch=1&resourceVersion={s3}&includeObject=None as table
?watch=1&resourceVersion={s3}&includeObject=Object as table
?watch=1&resourceVersion={s3}&includeObject=All as table
?watch=1&resourceVersion={s3}&allowWatchBookmarks=true as table
?watch=1&resourceVersion={old1} as table
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true as table
?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=None as table
?watch=1&resourceVersion={s3} as text
?watch=1&resourceVersion={s3} as yaml
/api/v1/{resource}?watch=1&resourceVersion={base}&labelSelector=app&fieldSelector=metadata.namespace%3D{namespace}
/api/v1/namespaces/nosuch/{resource}?watch=1&allowWatchBookmarks=true&resourceVersion={s3}
/api/v1/watch/namespaces/{namespace}/{resource}?resourceVersion=abc
`

var batteryResources = []batteryResource{
	{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		kind:                 "ConfigMap",
		before: []step{
			{"old1", "create", "a", "x", ""},
			{"old2", "create", "b", "x", ""},
			{"old3", "create", "c", "y", ""},
		},
		after: []step{
			{"s1", "create", "d", "x", ""},
			{"s2", "update", "a", "y", ""},
			{"s3", "update", "c", "x", ""},
			{"s4", "delete", "b", "", ""},
			{"s5", "update", "d", "x2", ""},
			{"s6", "create", "e", "x", ""},
		},
		live: []step{
			{"l1", "create", "f", "x", ""},
			{"l2", "update", "a", "x", ""},
			{"l3", "update", "c", "y", ""},
			{"l4", "delete", "f", "", ""},
			{"l5", "delete", "d", "", ""},
		},
	},
	{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		kind:                 "Pod",
		before: []step{
			{"old1", "create", "a", "x", "n1"},
			{"old2", "create", "b", "x", "n1"},
			{"old3", "create", "c", "y", "n2"},
		},
		after: []step{
			{"s1", "create", "d", "x", "n2"},
			{"s2", "update", "a", "y", ""},
			{"s3", "status", "c", "Running", ""},
			{"s4", "delete", "b", "", ""},
			{"s5", "update", "d", "x2", ""},
			{"s6", "create", "e", "x", "n1"},
		},
		live: []step{
			{"l1", "create", "f", "x", "n1"},
			{"l2", "status", "a", "Running", ""},
			{"l3", "status", "c", "Failed", ""},
			{"l4", "delete", "f", "", ""},
			{"l5", "update", "a", "x", ""},
		},
		requests: `
?fieldSelector=spec.nodeName%3Dn1
?fieldSelector=spec.nodeName!%3Dn1
?fieldSelector=status.phase%3DRunning
?fieldSelector=status.phase%3DPending
?fieldSelector=spec.restartPolicy%3DAlways
?fieldSelector=spec.hostNetwork%3Dtrue
?limit=1&fieldSelector=spec.nodeName%3Dn1
?watch=1&fieldSelector=spec.nodeName%3Dn1
?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion={base}
?watch=1&fieldSelector=status.phase%3DRunning&resourceVersion={base}
?watch=1&fieldSelector=status.phase%3DRunning,spec.nodeName%3Dn2&resourceVersion={base}&allowWatchBookmarks=1
/a/status
/a/log
`,
		// Fields that the API server fills in are not compared.
		prune: func(obj map[string]any) {
			delete(obj, "status")
			if spec, ok := obj["spec"].(map[string]any); ok {
				obj["spec"] = spec["nodeName"]
			}
		},
	},
}

// TestSameAnswersAsKubeAPIServer compares informertest, and with it watchcache, with the API server.
// Guarantees: W10
func TestSameAnswersAsKubeAPIServer(t *testing.T) {
	listed := map[string]bool{}
	for _, resource := range batteryResources {
		t.Run(resource.Resource, func(t *testing.T) {
			namespace := newNamespace(t)
			inProcess := inprocess.New(informertest.Options{Controllers: informertest.Controllers{GracefulPods: true}})
			defer inProcess.Close()
			others, _ := informertest.CollectionOf[*corev1.Secret](inProcess, corev1.SchemeGroupVersion.WithResource("secrets"))
			config := inProcess.Config()
			config.AcceptContentTypes = "application/json" // for the writing client
			ours := newSide(t, config, resource, namespace, func(uint64) {
				inProcess.Compact()
				// In a real cluster, others always write too.
				_, err := others.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
				if err != nil {
					t.Error(err)
				}
			})
			theirs := newSide(t, server.Config(), resource, namespace, func(rv uint64) {
				// A compaction makes etcd drop its history, a restart makes the watch cache drop its own.
				for _, err := range []error{server.Compact(t.Context(), rv), server.KillAPIServer(), server.StartAPIServer(t.Context())} {
					if err != nil {
						t.Error(err)
					}
				}
			})
			var answers [2]map[string]string
			var sides sync.WaitGroup
			for i, s := range []*side{ours, theirs} {
				sides.Go(func() { answers[i] = s.battery(t.Context()) })
			}
			if sides.Wait(); t.Failed() {
				return
			}
			for _, request := range slices.Sorted(maps.Keys(answers[1])) {
				want := answers[1][request]
				got := answers[0][request]
				key := resource.Resource + " " + request
				reason, known := differences[key]
				if !known {
					key = request
					reason, known = differences[key]
				}
				switch {
				case got == want && strings.Contains(got, "\n\tbroken: "):
					t.Errorf("%s %s: no side's response is readable: %s", resource.Resource, request, got)
				case got != want && !known:
					t.Errorf("%s %s\n   informertest: %s\n kube-apiserver: %s", resource.Resource, request, got, want)
				case got != want:
					listed[key] = true
					t.Logf("%s %s: differs, since %s", resource.Resource, request, reason)
				}
			}
		})
	}
	for key := range differences {
		if !listed[key] {
			t.Errorf("%s: both sides answer alike, or the request was not sent; remove it from differences", key)
		}
	}
}

// battery makes the changes, sends the requests, and returns the responses by request. "history" has the events of a watch of the
// changes.
func (s *side) battery(ctx context.Context) map[string]string {
	s.Helper()
	past, forget := context.WithCancel(ctx)
	s.record(past, "start")
	s.run(past, s.resource.before[:2])
	s.token("expired", "?limit=1")
	s.run(past, s.resource.before[2:])
	forget()
	s.compact(s.steps[len(s.steps)-1].rv)
	s.http.CloseIdleConnections()
	s.record(ctx, "base")
	s.run(ctx, s.resource.after)
	s.token("fresh", "?limit=2")
	s.token("exact", "?limit=1&resourceVersion={s1}&resourceVersionMatch=Exact")
	s.token("resumed", "?continue={expired}")
	encode := base64.RawURLEncoding.EncodeToString
	s.tokens["wrongversion"] = encode([]byte(`{"v":"v0","rv":5,"start":"a\u0000"}`))
	s.tokens["norv"] = encode([]byte(`{"v":"meta.k8s.io/v1","start":"a\u0000"}`))
	s.tokens["nostart"] = encode([]byte(`{"v":"meta.k8s.io/v1","rv":5}`))
	s.tokens["escape"] = encode([]byte(`{"v":"meta.k8s.io/v1","rv":5,"start":"../../secrets/a"}`))

	read := map[string]func() []string{}
	var mu sync.Mutex // protects read
	var watches, others errgroup.Group
	var open sync.WaitGroup
	others.SetLimit(16)
	ask := func(line, request string, opened func()) func() error {
		return func() error {
			sent := time.Now()
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // bounds a watch that does not end
			defer cancel()
			response, err := s.do(ctx, request)
			opened()
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			answer := s.answer(request, response, sent)
			mu.Lock()
			defer mu.Unlock()
			read[line] = answer
			return nil
		}
	}
	var later []string
	for line := range strings.Lines(batteryRequests + s.resource.requests) {
		if line = strings.TrimSpace(line); watchRequest.MatchString(line) {
			later = append(later, line)
		} else if line != "" {
			others.Go(ask(line, line, func() {}))
		}
	}
	s.must(others.Wait())
	open.Add(len(later))
	for _, line := range later {
		request := line
		if !strings.Contains(line, "timeoutSeconds=") {
			request = strings.Replace(line, "watch=", watchTime+"&watch=", 1)
		}
		watches.Go(ask(line, request, open.Done))
	}
	open.Wait()
	s.run(ctx, s.resource.live)
	s.must(watches.Wait())
	answers := map[string]string{}
	for line, answer := range read {
		answers[line] = strings.Join(answer(), "\n\t")
	}
	answers["history"] = strings.Join(s.history, "\n\t")
	return answers
}

// watchTime is long enough to open all watches, make the changes, and see a bookmark two seconds before the end.
const watchTime = "timeoutSeconds=12"

var watchRequest = regexp.MustCompile(`[?&]watch=(1|true|abc)`) // a boolean is true unless it is "false"

// token stores the continue token of a response.
func (s *side) token(name, line string) {
	s.Helper()
	response, err := s.do(s.Context(), line)
	s.must(err)
	defer response.Body.Close()
	var list metav1.List // or a Status
	s.must(json.NewDecoder(response.Body).Decode(&list))
	if s.tokens[name] = list.Continue; list.Continue == "" {
		s.Fatalf("%s %s: no continue token", s.host, line)
	}
}
