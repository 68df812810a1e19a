package selections

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkUpdate takes in changes of the pods of a fleet, one after the other. Each pod is in the given number of copies of
// the parts. With moves, it leaves a part and enters another one with every change, as pods do that a selector selects by
// their phase: the leave waits until the parts that did not have the pod know of it, here by a bookmark after every hundred
// changes.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct{ parts, copies int }{{1, 1}, {4, 1}, {4, 2}} {
		for _, moves := range []bool{false, true} {
			if moves && c.parts == 1 {
				continue
			}
			b.Run(fmt.Sprintf("parts=%d/copies=%d/moves=%t", c.parts, c.copies, moves), func(b *testing.B) {
				benchmarkUpdate(b, c.parts, c.copies, moves)
			})
		}
	}
}

func benchmarkUpdate(b *testing.B, parts, copies int, moves bool) {
	u, c := New[*metav1.ObjectMeta](), held{}
	selections := make([]*selection, parts)
	for i := range selections {
		selections[i] = &selection{held: held{}, version: "0"}
		u.Add(selections[i], "")
	}
	var pods []*metav1.ObjectMeta
	for pod := range fleet.New(fleet.Config{Pods: 2000}).All() {
		pods = append(pods, &pod.ObjectMeta)
	}
	firsts, version := make([]int, len(pods)), 0 // the first of the parts that have a pod
	change := func(i int) {
		version++
		was := pods[i]
		pods[i] = &metav1.ObjectMeta{Namespace: was.Namespace, Name: was.Name, UID: was.UID, ResourceVersion: strconv.Itoa(version)}
		first := firsts[i]
		if moves {
			firsts[i] = (first + 1) % parts
		}
		for n := range parts {
			s := selections[(first+n)%parts]
			if has := (first+n-firsts[i]+parts)%parts < copies; has || s.held[object.KeyOf(was)] != nil {
				s.change(u, c, pods[i], has)
			}
		}
		if version%100 == 0 {
			for _, s := range selections {
				s.progress(u, c, pods[i].ResourceVersion)
			}
		}
	}
	for i := range pods {
		firsts[i] = i % parts
		change(i)
	}
	i := 0
	for b.Loop() {
		change(i)
		i = (i + 1) % len(pods)
	}
	for _, s := range selections {
		s.progress(u, c, strconv.Itoa(version))
	}
	if len(c) != len(pods) || len(u.leaves) > 0 {
		b.Fatalf("%d pods of %d, %d leaves", len(c), len(pods), len(u.leaves))
	}
}

// held are objects by their keys.
type held map[object.Key]*metav1.ObjectMeta

func (h held) Get(key object.Key) (*metav1.ObjectMeta, bool)       { obj, ok := h[key]; return obj, ok }
func (h held) Put(obj *metav1.ObjectMeta)                          { h[object.KeyOf(obj)] = obj }
func (h held) Remove(key object.Key, _ *metav1.ObjectMeta, _ bool) { delete(h, key) }

// selection is a part that has some of the pods.
type selection struct {
	held
	version string
}

func (s *selection) All() iter.Seq[*metav1.ObjectMeta]   { return maps.Values(s.held) }
func (s *selection) Version() string                     { return s.version }
func (s *selection) Undecodable(*metav1.ObjectMeta) bool { return false }
func (s *selection) Frozen() Part[*metav1.ObjectMeta]    { return s }

// change takes in a change of obj, after which the selection has it or not.
func (s *selection) change(u *Union[*metav1.ObjectMeta], c held, obj *metav1.ObjectMeta, has bool) {
	key, from := object.KeyOf(obj), s.version
	change := Change[*metav1.ObjectMeta]{Key: key, Old: s.held[key]}
	if s.version = obj.ResourceVersion; has {
		s.Put(obj)
		change.New = obj
	} else {
		delete(s.held, key)
		change.Last, change.Final = obj, true
	}
	u.Update(s, Step[*metav1.ObjectMeta]{From: from, Changes: slices.Values([]Change[*metav1.ObjectMeta]{change})}, c)
}

// progress takes in a bookmark.
func (s *selection) progress(u *Union[*metav1.ObjectMeta], c held, version string) {
	from := s.version
	s.version = version
	u.Update(s, Step[*metav1.ObjectMeta]{From: from, Changes: func(func(Change[*metav1.ObjectMeta]) bool) {}}, c)
}
