package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

// start returns the list of a simulation with that many pods.
func start(t *testing.T, pods int) (*simulation, *list) {
	sim := newSimulation(pods)
	t.Cleanup(sim.server.Close)
	client, err := informer.NewClient(sim.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	inf := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		informer.Config[*corev1.Pod]{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- inf.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	if err := inf.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sim, newList(inf, simulatedAccess)
}

// get returns the page that a query asks for.
func get(t *testing.T, l *list, query string) string {
	t.Helper()
	status, body := request(l, query)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, status, body)
	}
	return body
}

func request(l *list, query string) (status int, body string) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+query, nil))
	return w.Code, w.Body.String()
}

var (
	rowPattern  = regexp.MustCompile(`<tr><td>(\S*) <td>(\S*) <td>(\S*) <td>(\d+) <td>`)
	nextPattern = regexp.MustCompile(`<a href="\?([^"]*)">next</a>`)
	sumPattern  = regexp.MustCompile(`page (\d+) of (\d+), (\d+) pods`)
	namespaceOf = regexp.MustCompile(`href="\?[^"]*namespace=([^"&]*)[^"]*"[^>]*>(?:all namespaces|team-\d+) <small>(\d+)<`)
)

// all returns the rows of all pages, from the first one on, and calls between before each next page.
func all(t *testing.T, l *list, query string, between func()) (rows [][]string) {
	t.Helper()
	for {
		body := get(t, l, query)
		rows = append(rows, rowPattern.FindAllStringSubmatch(body, -1)...)
		next := nextPattern.FindStringSubmatch(body)
		if next == nil {
			if sum := sumPattern.FindStringSubmatch(body); sum == nil || sum[1] != sum[2] || sum[3] != fmt.Sprint(len(rows)) {
				t.Fatalf("%s: the last page says %q after %d rows", query, sum, len(rows))
			}
			return rows
		}
		query = strings.ReplaceAll(next[1], "&amp;", "&")
		between()
	}
}

// All pages of a list are of one moment: each pod is there once, in order, although pods restart meanwhile.
func TestPagesBelongTogether(t *testing.T) {
	const pods = 500
	sim, l := start(t, pods)
	for _, query := range []string{"sort=restarts", "sort=restarts&order=desc", "sort=age", "", "sort=name&order=desc"} {
		restarted := 0
		rows := all(t, l, query, func() {
			for range 20 {
				if err := sim.restart(restarted % pods); err != nil {
					t.Fatal(err)
				}
				restarted++
			}
		})
		names := map[string]bool{}
		var restarts []int
		for _, row := range rows {
			names[row[2]] = true
			n, _ := strconv.Atoi(row[4])
			restarts = append(restarts, n)
		}
		if len(names) != pods || len(rows) != pods || restarted == 0 {
			t.Errorf("%s: %d rows of %d pods, want %d", query, len(rows), len(names), pods)
		}
		if strings.Contains(query, "desc") {
			slices.Reverse(restarts)
			slices.Reverse(rows)
		}
		if strings.Contains(query, "restarts") && !slices.IsSorted(restarts) {
			t.Errorf("%s: restarts %v", query, restarts)
		}
		byName := func(a, b []string) int { return slices.Compare(a[1:3], b[1:3]) }
		if !strings.Contains(query, "restarts") && !strings.Contains(query, "age") && !slices.IsSortedFunc(rows, byName) {
			t.Errorf("%s: not sorted by name", query)
		}
	}
}

// Users see the namespaces that they may list, with the right numbers, and no pod of others.
func TestAccessIsByNamespace(t *testing.T) {
	_, l := start(t, 240) // 20 in each namespace
	for _, test := range []struct {
		query      string
		namespaces int
		rows       int
	}{
		{"", 1 + namespaces, 240},
		{"namespace=team-3", 1 + namespaces, 20},
		{"user=team-3,team-5", 2, 20}, // the first of them
		{"user=team-3,team-5&namespace=team-5", 2, 20},
	} {
		rows := all(t, l, test.query, func() {})
		groups := namespaceOf.FindAllStringSubmatch(get(t, l, test.query), -1)
		if len(rows) != test.rows || len(groups) != test.namespaces {
			t.Errorf("%s: %d rows and namespaces %q, want %d and %d", test.query, len(rows), groups, test.rows, test.namespaces)
		}
		for _, g := range groups {
			if want := map[bool]string{true: "240", false: "20"}[g[1] == ""]; g[2] != want {
				t.Errorf("%s: namespace %q has %s pods, want %s", test.query, g[1], g[2], want)
			}
		}
		if values, _ := url.ParseQuery(test.query); values.Has("namespace") {
			for _, row := range rows {
				if row[1] != values.Get("namespace") {
					t.Errorf("%s: a pod of %s", test.query, row[1])
				}
			}
		}
	}
	before := len(l.kept)
	for query, want := range map[string]int{
		"user=team-3&namespace=team-4": http.StatusForbidden,
		"user=team-3&namespace=":       http.StatusForbidden,
		"user=nobody":                  http.StatusForbidden,
		"namespace=none":               http.StatusForbidden,
		"sort=color":                   http.StatusBadRequest,
	} {
		if status, body := request(l, query); status != want || strings.Contains(body, "app-") {
			t.Errorf("%s: %d %s, want %d", query, status, body, want)
		}
	}
	if len(l.kept) != before {
		t.Error("requests that were refused keep lists")
	}
	l.synced = func() bool { return false }
	if status, body := request(l, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "not listed yet") {
		t.Errorf("before the first list: %d %s", status, body)
	}
	l.synced = func() bool { return true }
	l.access = func(*http.Request, string) (bool, error) { return true, fmt.Errorf("no answer") }
	if status, _ := request(l, ""); status != http.StatusServiceUnavailable {
		t.Errorf("without an answer about access: %d", status)
	}
}

// The phases of a namespace have the numbers of their pods, which sum up to all.
func TestFilterByPhase(t *testing.T) {
	_, l := start(t, 240)
	total := 0
	for _, phase := range phases {
		rows := all(t, l, "namespace=team-1&sort=age&phase="+string(phase), func() {})
		for _, row := range rows {
			if row[1] != "team-1" || row[3] != string(phase) {
				t.Errorf("phase %s has %q", phase, row)
			}
		}
		if body := get(t, l, "namespace=team-1"); !strings.Contains(body, fmt.Sprintf(">%s <small>%d<", phase, len(rows))) && len(rows) > 0 {
			t.Errorf("the page does not say that %d pods are %s: %s", len(rows), phase, body)
		}
		total += len(rows)
	}
	if total != 20 {
		t.Errorf("%d pods in all phases, want 20", total)
	}
}

// The number of lists that are kept is bounded. Those that somebody looks at stay.
func TestKeptListsAreBounded(t *testing.T) {
	_, l := start(t, 100)
	next := nextPattern.FindStringSubmatch(get(t, l, ""))[1]
	query, err := url.ParseQuery(strings.ReplaceAll(next, "&amp;", "&"))
	if err != nil {
		t.Fatal(err)
	}
	id := query.Get("list")
	for range 3 * keptLists {
		get(t, l, "")
		if body := get(t, l, "list="+id); !strings.Contains(body, id) {
			t.Fatal("the list that is in use is gone")
		}
	}
	if len(l.kept) != keptLists {
		t.Errorf("%d lists are kept, want %d", len(l.kept), keptLists)
	}
	if body := get(t, l, "list=other"); strings.Contains(body, "list=other") {
		t.Error("an unknown list is continued")
	}
}

// A list that nobody looks at is dropped after its time, also if no request comes.
func TestKeptListsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &list{kept: map[string]kept{}}
		keeps := func(want int) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.kept) != want || l.expiry == nil != (want == 0) {
				t.Errorf("%d lists are kept, want %d", len(l.kept), want)
			}
		}
		for range 2 { // the second time, with a new timer
			l.keep("a", nil)
			time.Sleep(keptListsFor / 2)
			l.keep("b", nil)
			l.keep("c", nil)
			time.Sleep(keptListsFor / 2)
			keeps(2)
			l.keep("b", nil)
			time.Sleep(keptListsFor / 2)
			keeps(1)
			time.Sleep(keptListsFor / 2)
			keeps(0)
		}
	})
}

// Links repeat only the parameters of a page, which are short. The body of a request has none.
func TestLinksRepeatOnlyTheParameters(t *testing.T) {
	_, l := start(t, 100)
	body := get(t, l, "sort=age&other=secret&namespace=&user=&page=2")
	if strings.Contains(body, "secret") || !strings.Contains(body, "sort=age") {
		t.Error(body)
	}
	for _, name := range parameters {
		if status, body := request(l, name+"="+strings.Repeat("x", 300)); status != http.StatusBadRequest || len(body) > 100 {
			t.Errorf("a long %s: %d %s", name, status, body)
		}
	}
	w, form := httptest.NewRecorder(), strings.NewReader("namespace=team-3&user=team-3")
	post := httptest.NewRequest(http.MethodPost, "/?sort=age", form)
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if l.ServeHTTP(w, post); strings.Contains(w.Body.String(), "user=") || !strings.Contains(w.Body.String(), "100 pods") {
		t.Errorf("a request with a body: %s", w.Body)
	}
}

// Questions about namespaces are asked some at a time, and only if the answer about all is no.
func TestAccessIsAskedInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []group{{Name: ""}}
		for n := range 2*maxReviews + 1 {
			all = append(all, group{Name: fmt.Sprint("team-", n)})
		}
		var asking, most, asked atomic.Int32
		failing := ""
		l := &list{access: func(r *http.Request, namespace string) (bool, error) {
			most.Store(max(most.Load(), asking.Add(1)))
			defer asking.Add(-1)
			asked.Add(1)
			time.Sleep(time.Second)
			if namespace == failing && namespace != "" {
				return false, errors.New("no answer")
			}
			return namespace == r.URL.Query().Get("user") || namespace == "team-3", r.Context().Err()
		}}
		for _, test := range []struct {
			user, failing string
			asked         int32
			seconds       time.Duration
		}{{"", "", 1, 1}, {"team-0", "", int32(len(all)), 4}, {"team-0", "team-1", int32(len(all)), 4}} {
			failing = test.failing
			asked.Store(0)
			begin := time.Now()
			answers, err := l.allowed(httptest.NewRequest(http.MethodGet, "/?user="+test.user, nil), all)
			if err != nil != (failing != "") || asked.Load() != test.asked || time.Since(begin) != test.seconds*time.Second {
				t.Errorf("%+v: %v, asked %d times in %v", test, err, asked.Load(), time.Since(begin))
			}
			for n, allowed := range answers {
				if want := test.user == "" || n == 1 || n == 4; failing == "" && allowed != want {
					t.Errorf("%+v: %q is allowed: %v", test, all[n].Name, allowed)
				}
			}
		}
		if most.Load() > maxReviews {
			t.Errorf("%d questions at once", most.Load())
		}
	})
}

// addresses is an output that sends what is written to it.
type addresses chan string

func (a addresses) Write(p []byte) (int, error) {
	a <- strings.TrimSpace(string(p))
	return len(p), nil
}

// The program serves pages until its context ends.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out := make(addresses, 1)
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"-addr", "127.0.0.1:0", "-pods", "50", "-compact"}, out) }()
	response, err := http.Get(<-out)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if stop(); <-ended != nil {
		t.Error("run returns an error")
	}
	for _, args := range [][]string{{"-pods", "0"}, {"-rate", "-1"}, {"-rate", "2000000000"}, {"-kubeconfig", "/none"}, {"-addr", "nowhere:-1"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
