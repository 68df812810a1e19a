package informer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/snapshotfile"
)

// errStale is why nothing is saved.
var errStale = errors.New("the newest version of an object could not be decoded: a warm start would miss it")

// save saves the objects of one namespace of snap, unless nothing has changed. It notes a failure in the status, and
// logs it unless the save before failed, too. last means that the informer ends: save then sends no request.
func (s *savedStates[T]) save(ctx context.Context, snap *Snapshot[T], log *slog.Logger, last bool) {
	began := time.Now()
	before := s.present()
	src, ok := snap.sourceOf(s.identity.Namespace)
	if !ok || src.resourceVersion == "" || src.shard == nil {
		return // no list
	}
	s.mu.Lock()
	have := s.stored
	s.mu.Unlock()
	if src.resourceVersion == have.version && src.listed.Equal(have.listed) && src.shard.String() == have.shard &&
		time.Since(have.time) < s.config.maxAge()/2 {
		return
	}
	objects, bytes, err := 0, int64(0), error(nil)
	if src.undecoded.len() > 0 {
		err = errStale
	} else {
		objects, bytes, err = s.write(ctx, snap, src, last)
	}
	if ctx.Err() != nil {
		return // the last save follows
	}
	if err != nil {
		s.noteSaveError(err, log)
		return
	}
	s.update(func(st *WarmStartStatus) {
		st.SaveError = nil
		st.Saves++
		s.stored = stored{src.resourceVersion, src.shard.String(), src.listed, began}
		st.SavedAt, st.SaveTime = began, time.Since(began)
		st.SavedObjects, st.SavedVersion, st.SavedBytes = objects, src.resourceVersion, bytes
	})
	if before.SaveError != nil {
		log.Info("the state is saved again", "objects", objects, "resourceVersion", src.resourceVersion)
	}
}

// noteSaveError notes a failure in the status, and logs it unless the save before failed, too.
func (s *savedStates[T]) noteSaveError(err error, log *slog.Logger) {
	var before error
	s.update(func(st *WarmStartStatus) { before, st.SaveError = st.SaveError, err })
	if before == nil {
		log.Warn("the state cannot be saved", "why", err)
	}
}

// write writes a saved state into the storage.
func (s *savedStates[T]) write(ctx context.Context, snap *Snapshot[T], src source,
	last bool) (objects int, bytes int64, err error) {
	h := savedHeader{s.identity, src.resourceVersion, time.Now(), src.listed}
	h.Shard = src.shard.String()
	var known bool
	if h.Cluster, known = s.client.knownCluster(); !known {
		if last {
			return 0, 0, errors.New("the server has not been identified yet")
		}
		if h.Cluster, err = s.client.cluster(ctx); err != nil {
			return 0, 0, err
		}
	}
	header, err := json.Marshal(h)
	if err != nil {
		return 0, 0, err
	}
	err = s.config.Storage.Save(ctx, s.name, func(to io.Writer) error {
		objects = 0
		w, err := snapshotfile.NewWriter(to, header)
		if err != nil {
			return err
		}
		checked := make(map[uint64]bool, len(s.saver.checked))
		for obj := range snap.in(s.identity.Namespace) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := s.record(obj, checked)
			if err == nil {
				err = w.Append(r)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", KeyOf(obj), err)
			}
			objects++
		}
		s.saver.checked = checked
		s.saver.buf = nil
		if err := w.Close(); err != nil {
			return err
		}
		bytes = w.Written()
		return nil
	})
	return objects, bytes, err
}

// keep keeps the memory of raw for the next object.
func (s *saver) keep(raw []byte) {
	if cap(raw) > cap(s.buf) && cap(raw) <= 2*batchBytes {
		s.buf = raw[:0]
	}
}

// record returns obj in encoded form, in memory that the next call uses again.
func (s *savedStates[T]) record(obj T, checked map[uint64]bool) (r snapshotfile.Record, err error) {
	whole := any(obj)
	if s.packing != nil {
		e, ok, err := s.packing.Encoded(obj, s.saver.buf)
		if ok || err != nil {
			s.saver.keep(e.Raw)
			return savedRecord(e), err
		}
		whole = s.packing.Whole(obj)
	}
	var h maphash.Hash
	h.SetSeed(s.saver.seed)
	maphash.WriteComparable(&h, obj) // a restored server can send other content under the same UID and resource version
	h.WriteString(string(obj.GetUID()))
	h.WriteByte(0)
	h.WriteString(obj.GetResourceVersion())
	version := h.Sum64()
	if protobuf, known := s.saver.checked[version]; known && obj.GetResourceVersion() != "" {
		checked[version] = protobuf
		f, raw, err := decode.Encode(whole, protobuf, s.saver.buf)
		s.saver.keep(raw)
		return savedRecord(decode.Encoded{Format: f, Raw: raw}), err
	}
	f, raw, err := s.lossless(whole)
	if err != nil {
		return r, err
	}
	s.saver.keep(raw)
	checked[version] = f == decode.Protobuf
	return savedRecord(decode.Encoded{Format: f, Raw: raw}), nil
}

// errLossy indicates an object that no encoding holds.
var errLossy = errors.New("it changes when it is encoded and decoded again, so it cannot be saved; " +
	"Config.Compact holds it as the server sent it")

// lossless returns obj in an encoding from which the same object is decoded.
func (s *savedStates[T]) lossless(obj any) (f decode.Format, raw []byte, err error) {
	for _, protobuf := range []bool{true, false} {
		if protobuf && !s.decoders.Marshals(obj) {
			continue
		}
		if f, raw, err = decode.Encode(obj, protobuf, s.saver.buf); err != nil {
			continue
		}
		one := s.decoders.Get()
		var again any
		again, err = one.Decode(f, raw, decode.Origin{})
		s.decoders.Put(one)
		if err == nil && (reflect.DeepEqual(obj, again) || sameValues(obj, again)) {
			return f, raw, nil
		}
	}
	if err != nil {
		return f, nil, fmt.Errorf("%w: %w", errLossy, err)
	}
	return f, nil, errLossy
}

// sameValues reports whether a and b are equal, as the Kubernetes API defines it: quantities and times by their values.
// A nil slice differs from an empty one.
func sameValues(a, b any) (same bool) {
	defer func() { _ = recover() }() // it panics at an unexported field
	return equality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b)
}
