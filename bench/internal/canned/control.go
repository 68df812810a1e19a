package canned

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Info is the state that a client should find.
type Info struct {
	Pods int
	// Keys are the keys of up to 1,000 random pods. Namespace is the one whose number of pods is nearest to 500.
	Keys        []types.NamespacedName
	Namespace   string
	InNamespace int
	// ResourceVersion is the resource version of the list.
	ResourceVersion string
	// TLS is the URL with TLS, and CA what certifies it, in PEM. Both are empty without Start. Token authenticates the
	// client; empty means that it need not.
	TLS   string
	CA    []byte
	Token string
	// Real says that it is a kube-apiserver: it writes changes when they are released, so that their versions are known
	// only then, it does not tell the formats of its answers, and it expires watches by a restart.
	Real bool
}

// InfoOf returns the state of a server with these pods.
func InfoOf(pods []types.NamespacedName) Info {
	info := Info{Pods: len(pods)}
	namespaces := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for _, key := range pods {
		namespaces[key.Namespace]++
		if random.IntN(max(len(pods)/1000, 1)) == 0 && len(info.Keys) < 1000 {
			info.Keys = append(info.Keys, key)
		}
	}
	far := func(namespace string) int {
		return max(namespaces[namespace]-500, 500-namespaces[namespace])
	}
	info.Namespace = slices.MinFunc(slices.Sorted(maps.Keys(namespaces)),
		func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	info.InNamespace = namespaces[info.Namespace]
	random.Shuffle(len(info.Keys), func(i, j int) { info.Keys[i], info.Keys[j] = info.Keys[j], info.Keys[i] })
	return info
}

// Released describes released changes.
type Released struct {
	// Versions are their resource versions, in ascending order, and Keys their pods. Sent has the times at which they were
	// sent, by measure.Now, or 0 if not yet.
	Versions []string
	Keys     []types.NamespacedName
	Sent     []int64
}

// Backend is a server that a [Control] controls. Its methods are safe for concurrent use.
type Backend interface {
	// Reset restores the initial state for the next client, and ends the watches of others.
	Reset() Info
	// Expire makes the open watches end so that their clients list again.
	Expire(ctx context.Context) error
	// Release releases n more changes: all at once, or rate a second. It returns the number of the first one.
	Release(n, rate int) (first int, err error)
	// Released returns the changes with numbers from to to-1.
	Released(ctx context.Context, from, to int) (Released, error)
	// Served returns the formats of the answers since the last reset; nil if the server does not know.
	Served() []string
	// CPU returns the processor time that the server has used.
	CPU() (time.Duration, error)
	// Memory returns the resident memory of a kube-apiserver: the peak since the last call, and the present one. It is zero
	// for other servers.
	Memory() (Memory, error)
}

// Memory is the resident memory of a server, in bytes.
type Memory struct{ Peak, Present int64 }

// HandleControl adds to mux what a Control asks of b.
func HandleControl(mux *http.ServeMux, b Backend) {
	handle := func(path string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc("GET /control/"+path, func(w http.ResponseWriter, r *http.Request) {
			result, err := answer(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(result)
		})
	}
	number := func(r *http.Request, name string) int {
		n, _ := strconv.Atoi(r.FormValue(name))
		return n
	}
	handle("reset", func(*http.Request) (any, error) { return b.Reset(), nil })
	handle("expire", func(r *http.Request) (any, error) { return nil, b.Expire(r.Context()) })
	handle("release", func(r *http.Request) (any, error) { return b.Release(number(r, "changes"), number(r, "rate")) })
	handle("released", func(r *http.Request) (any, error) {
		return b.Released(r.Context(), number(r, "from"), number(r, "to"))
	})
	handle("served", func(*http.Request) (any, error) { return b.Served(), nil })
	handle("cpu", func(*http.Request) (any, error) { return b.CPU() })
	handle("memory", func(*http.Request) (any, error) { return b.Memory() })
}

// Control controls a server from another process.
type Control struct{ Server string }

// Reset restores the server's initial state, and ends the watches of others.
func (c Control) Reset() (info Info, err error) { return info, c.get("reset", &info) }

// Expire ends the open watch with 410 Expired, or restarts a kube-apiserver.
func (c Control) Expire() error { return c.get("expire", nil) }

// Release releases n more changes: all at once, or rate a second. It returns the number of the first one.
func (c Control) Release(n, rate int) (first int, err error) {
	return first, c.get(fmt.Sprintf("release?changes=%d&rate=%d", n, rate), &first)
}

// Released returns the changes with numbers from to to-1, whether released yet or not. A kube-apiserver first writes
// them.
func (c Control) Released(from, to int) (released Released, err error) {
	return released, c.get(fmt.Sprintf("released?from=%d&to=%d", from, to), &released)
}

// Served returns the formats of the server's responses since the last reset.
func (c Control) Served() (formats []string, err error) { return formats, c.get("served", &formats) }

// CPU returns the processor time that the server has used.
func (c Control) CPU() (cpu time.Duration, err error) { return cpu, c.get("cpu", &cpu) }

// Memory returns the resident memory of a kube-apiserver: the peak since the last call, and the present one.
func (c Control) Memory() (memory Memory, err error) { return memory, c.get("memory", &memory) }

func (c Control) get(path string, result any) error {
	response, err := http.Get(c.Server + "/control/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s: %s: %s", path, response.Status, bytes.TrimSpace(reason))
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(result)
}
