package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// plan says how much to measure.
type plan struct {
	pods, nodes   int
	watchers      []int
	perConnection int
	maxEvents     int // deliveries in a measurement with many of them
	singles       int // changes of a measurement of one change at a time
	warm          int // changes before the first watch of all pods
	bursts        []int
	lists         int           // repetitions of each list
	idle          time.Duration // how long idle watchers are observed
	stormPods     int
	storm         int // watchers
	runs          int
}

var full = plan{
	pods: 30_000, nodes: 10_000, watchers: []int{10, 100, 1000, 10_000}, perConnection: streams,
	maxEvents: 1_000_000, singles: 200, warm: 10_000, bursts: []int{100, 1000}, lists: 3, idle: 65 * time.Second,
	stormPods: 1000, storm: 1000, runs: 3,
}

var quick = plan{
	pods: 300, nodes: 20, watchers: []int{10, 30}, perConnection: 20, maxEvents: 3000, singles: 10,
	warm: 200, bursts: []int{5, 50}, lists: 1, idle: 100 * time.Millisecond, stormPods: 50, storm: 20, runs: 1,
}

// names are the compared implementations.
var names = []string{"cacher", "watchcache"}

// measureAll measures the rows of the selected groups. The implementations take turns.
func measureAll(p plan, selected func(group string) bool, t *table) error {
	groups := []struct {
		name    string
		measure func(plan, map[string]*peer, *table) error
	}{
		{"idle", idle}, {"lists", lists}, {"nodes", nodes}, {"watch", fanOuts},
	}
	peers := map[string]*peer{}
	defer func() {
		for _, p := range peers {
			p.stop()
		}
	}()
	for _, name := range names {
		var err error
		if peers[name], err = startPeer(name, p.pods, p.nodes); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if !selected(g.name) {
			continue
		}
		if err := g.measure(p, peers, t); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	for name, peer := range peers {
		peer.stop()
		delete(peers, name)
	}
	if !selected("storm") {
		return nil
	}
	for range p.runs {
		for _, name := range names {
			if err := storms(p, name, t); err != nil {
				return fmt.Errorf("storm: %w", err)
			}
		}
	}
	return nil
}

// turns calls measure for each implementation in turn, as often as the plan says.
func turns(p plan, peers map[string]*peer, measure func(*peer) error) error {
	for run := range p.runs {
		order := slices.Clone(names)
		if run%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			if err := measure(peers[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// following returns the query of a watch from the present version.
func following(info serverInfo) func(int) url.Values {
	return func(int) url.Values { return url.Values{"resourceVersion": {info.ResourceVersion}} }
}

// fanOuts measures watches of all pods. There have been changes before, because the Cacher gives a watch as much buffer
// as it has had changes lately.
func fanOuts(p plan, peers map[string]*peer, t *table) error {
	for _, peer := range peers {
		if _, err := peer.change(p.warm, 0); err != nil {
			return err
		}
	}
	for _, accept := range []string{acceptProtobuf, acceptJSON} {
		for _, watchers := range p.watchers {
			err := turns(p, peers, func(peer *peer) error { return fanOut(p, peer, watchers, accept, t) })
			if err != nil {
				return fmt.Errorf("%d watchers: %w", watchers, err)
			}
		}
	}
	return nil
}

func fanOut(p plan, peer *peer, watchers int, accept string, t *table) error {
	if err := peer.refresh(); err != nil {
		return err
	}
	w, err := openWatches(peer, watchConfig{
		watchers: watchers, perConnection: p.perConnection, accept: accept, query: following(peer.info),
	})
	defer w.close()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s watchers, %s", thousands(watchers), formName(accept))
	goal := 1.0
	if watchers == 1000 {
		goal = 1.5
	}
	// A pause leaves the machine time for all deliveries of a change, so that each change finds idle watchers.
	pause := 2*time.Millisecond + time.Duration(watchers)*100*time.Microsecond
	singles := max(min(p.singles, p.maxEvents/10/watchers), 5)
	r, err := deliver(peer, w, singles, pause, watchers)
	if err != nil {
		return err
	}
	t.add(row{what, "one change at a time, CPU an event", microseconds, goal}, peer.name, r.perEvent)
	t.add(row{what, "one change at a time, last watcher, p50", milliseconds, 1}, peer.name, r.p50)
	t.add(row{what, "one change at a time, last watcher, p99", milliseconds, 1}, peer.name, r.p99)
	for _, changes := range p.bursts {
		if changes*watchers > p.maxEvents {
			continue
		}
		if err := burst(peer, w, what, "CPU an event", changes, watchers, t); err != nil {
			return err
		}
	}
	return nil
}

// burst measures changes without a pause. A server may end watches that do not keep up; then there is no value.
func burst(peer *peer, w *watches, what, cpu string, changes, watchers int, t *table) error {
	r, err := deliver(peer, w, changes, 0, watchers)
	single := row{what, fmt.Sprintf("burst of %s, %s", thousands(changes), cpu), microseconds, 1}
	all := row{what, fmt.Sprintf("burst of %s, time of all", thousands(changes)), milliseconds, 1}
	var missed *missedError
	switch {
	case errors.As(err, &missed): // then the next burst has no value either
		t.fail(single, peer.name, err)
		t.fail(all, peer.name, err)
	case err != nil:
		return err
	default:
		t.add(single, peer.name, r.perEvent)
		t.add(all, peer.name, r.all)
	}
	return nil
}

// delivery is what delivering changes took.
type delivery struct {
	perEvent      float64 // seconds of the server's CPU
	p50, p99, all float64 // seconds until the last watcher had a change, and until it had all
}

// deliver applies changes and waits until watchers watches have each.
func deliver(p *peer, w *watches, changes int, pause time.Duration, watchers int) (d delivery, err error) {
	w.tally.expect(want{changes: int64(changes), watches: int64(watchers)})
	c, err := p.change(changes, pause)
	if err != nil {
		return d, err
	}
	if err := w.wait(); err != nil {
		return d, err
	}
	after, err := p.usage("cpu")
	if err != nil {
		return d, err
	}
	lags := make([]float64, changes)
	for i, reached := range w.tally.times {
		lags[i] = time.Duration(reached - c.Puts[i]).Seconds()
	}
	slices.Sort(lags)
	d.perEvent = (after.CPU - c.CPU).Seconds() / float64(changes*watchers)
	d.p50, d.p99 = lags[changes/2], lags[changes*99/100]
	d.all = time.Duration(w.tally.times[changes-1] - c.Puts[0]).Seconds()
	return d, nil
}

// nodes measures watches of one node each, like those of kubelets.
func nodes(p plan, peers map[string]*peer, t *table) error {
	return turns(p, peers, func(peer *peer) error {
		if err := peer.refresh(); err != nil {
			return err
		}
		watchers := len(peer.info.Nodes)
		w, err := openWatches(peer, watchConfig{
			watchers: watchers, perConnection: p.perConnection, accept: acceptProtobuf,
			query: func(i int) url.Values {
				q := following(peer.info)(i)
				q.Set("fieldSelector", nodeName+"="+peer.info.Nodes[i])
				return q
			},
		})
		defer w.close()
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s watchers of a node each", thousands(watchers))
		r, err := deliver(peer, w, p.singles, 5*time.Millisecond, 1)
		if err != nil {
			return err
		}
		t.add(row{what, "one change at a time, CPU a change", microseconds, 1}, peer.name, r.perEvent)
		t.add(row{what, "one change at a time, p50", milliseconds, 1}, peer.name, r.p50)
		for _, changes := range p.bursts {
			if err := burst(peer, w, what, "CPU a change", changes, 1, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// lists measures lists of all kinds.
func lists(p plan, peers map[string]*peer, t *table) error {
	for _, l := range []struct {
		what   string
		times  int // in each measurement, for small lists
		accept string
		query  func(serverInfo) (path string, query url.Values)
	}{
		{"all", 1, acceptProtobuf, func(serverInfo) (string, url.Values) { return podsPath, url.Values{} }},
		{"all", 1, acceptJSON, func(serverInfo) (string, url.Values) { return podsPath, url.Values{} }},
		{"all, any version", 1, acceptProtobuf, func(serverInfo) (string, url.Values) {
			return podsPath, url.Values{"resourceVersion": {"0"}}
		}},
		{"pages of 500", 1, acceptProtobuf, func(serverInfo) (string, url.Values) {
			return podsPath, url.Values{"limit": {"500"}}
		}},
		{"pages of 500", 1, acceptJSON, func(serverInfo) (string, url.Values) {
			return podsPath, url.Values{"limit": {"500"}}
		}},
		{"one namespace", 1, acceptProtobuf, func(i serverInfo) (string, url.Values) {
			return "/api/v1/namespaces/" + i.Namespace + "/pods", url.Values{}
		}},
		{"one node", 200, acceptProtobuf, func(i serverInfo) (string, url.Values) {
			return podsPath, url.Values{"fieldSelector": {nodeName + "=" + i.Nodes[0]}}
		}},
		{"one label", 1, acceptProtobuf, func(i serverInfo) (string, url.Values) {
			return podsPath, url.Values{"labelSelector": {"team=" + i.Team}}
		}},
		{"all, metadata", 1, acceptProtobufMetadata, func(serverInfo) (string, url.Values) { return podsPath, url.Values{} }},
		{"all, metadata", 1, acceptJSONMetadata, func(serverInfo) (string, url.Values) { return podsPath, url.Values{} }},
	} {
		what := "list of " + l.what + ", " + formName(l.accept)
		err := turns(p, peers, func(peer *peer) error {
			if err := peer.refresh(); err != nil {
				return err
			}
			c, err := dial(peer.info)
			if err != nil {
				return err
			}
			defer c.close()
			for range p.lists {
				before, err := peer.usage("cpu")
				if err != nil {
					return err
				}
				began := time.Now()
				bytes := int64(0)
				for range l.times {
					path, query := l.query(peer.info)
					if bytes, err = list(c, path, query, l.accept); err != nil {
						return err
					}
				}
				took := time.Since(began)
				after, err := peer.usage("cpu")
				if err != nil {
					return err
				}
				t.add(row{what, "time", milliseconds, 1}, peer.name, took.Seconds()/float64(l.times))
				t.add(row{what, "CPU", milliseconds, 1}, peer.name, (after.CPU-before.CPU).Seconds()/float64(l.times))
				t.same(what, peer.name, bytes)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

const podsPath = "/api/v1/pods"

// idle measures watchers without events: their memory, and the CPU of their bookmarks.
func idle(p plan, peers map[string]*peer, t *table) error {
	watchers := p.watchers[len(p.watchers)-1]
	what := thousands(watchers) + " idle watchers"
	before := map[string]usage{}
	open := map[string]*watches{}
	defer func() {
		for _, w := range open {
			w.close()
		}
	}()
	for _, name := range names {
		peer := peers[name]
		if err := peer.refresh(); err != nil {
			return err
		}
		empty, err := peer.usage("memory")
		if err != nil {
			return err
		}
		w, err := openWatches(peer, watchConfig{
			watchers: watchers, perConnection: p.perConnection, accept: acceptProtobuf,
			query: func(i int) url.Values {
				q := following(peer.info)(i)
				q.Set("allowWatchBookmarks", "true")
				return q
			},
		})
		open[name] = w
		if err != nil {
			return err
		}
		if _, err := deliver(peer, w, 3, time.Second, watchers); err != nil {
			return err
		}
		opened, err := peer.usage("memory")
		if err != nil {
			return err
		}
		before[name] = opened
		for _, m := range []struct {
			what        string
			goal        float64
			full, empty int64
		}{
			{"memory of a watcher", 2, opened.Resident, empty.Resident},
			{"of which heap", 1, opened.Heap, empty.Heap},
			{"of which stacks", 1, opened.Stacks, empty.Stacks},
		} {
			t.add(row{what, m.what, kilobytes, m.goal}, name, float64(m.full-m.empty)/float64(watchers))
		}
	}
	time.Sleep(p.idle)
	for _, name := range names {
		after, err := peers[name].usage("cpu")
		if err != nil {
			return err
		}
		if err := open[name].check(); err != nil {
			return err
		}
		t.add(row{what, fmt.Sprintf("CPU in %v", p.idle), milliseconds, 1}, name, (after.CPU - before[name].CPU).Seconds())
	}
	return nil
}

// storms measures clients that begin anew after a restart of the server: all with all pods, and all with those of a
// node each.
func storms(p plan, name string, t *table) error {
	initial := func(info serverInfo, byNode bool) func(int) url.Values {
		return func(i int) url.Values {
			q := url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
				"allowWatchBookmarks": {"true"}}
			if byNode {
				q.Set("fieldSelector", nodeName+"="+info.Nodes[i%len(info.Nodes)])
			}
			return q
		}
	}
	for _, s := range []struct {
		pods   int
		byNode bool
		what   string
	}{
		{p.stormPods, false, "%s watchers list %s pods each by watching"},
		{p.pods, true, "%s watchers of a node each, of %s pods, list by watching"},
	} {
		peer, err := startPeer(name, s.pods, p.nodes)
		if err != nil {
			return err
		}
		defer peer.stop()
		before, err := peer.usage("cpu")
		if err != nil {
			return err
		}
		began := time.Now()
		w, err := openWatches(peer, watchConfig{watchers: p.storm, perConnection: p.perConnection, accept: acceptProtobuf,
			query: initial(peer.info, s.byNode), initial: true})
		took := time.Since(began)
		w.close()
		if err != nil {
			return err
		}
		after, err := peer.usage("cpu")
		if err != nil {
			return err
		}
		what := fmt.Sprintf("restart: "+s.what, thousands(p.storm), thousands(s.pods))
		t.add(row{what, "time", milliseconds, 1}, name, took.Seconds())
		t.add(row{what, "CPU", milliseconds, 1}, name, (after.CPU - before.CPU).Seconds())
		t.same(what, name, w.tally.bytes.Load())
		peer.stop()
	}
	return nil
}

func formName(accept string) string {
	switch accept {
	case acceptJSON, acceptJSONMetadata:
		return "JSON"
	}
	return "protobuf"
}

// thousands formats a number with separators.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
