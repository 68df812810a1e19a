package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// savedPods is the number of pods in the informers of BenchmarkSave.
const savedPods = 30_000

// counting is a storage that counts and forgets.
type counting struct{ bytes int }

func (c *counting) Load(context.Context, string) (io.ReadCloser, error) { return nil, os.ErrNotExist }

func (c *counting) Save(_ context.Context, _ string, write func(io.Writer) error) error {
	c.bytes = 0
	return write(c)
}

func (c *counting) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}

// BenchmarkSave measures the encoding of a state: the first one of a process, which checks that the encoding of each
// object loses nothing, and a later one. Then it measures a write to the store alone, and during saves without a pause.
func BenchmarkSave(b *testing.B) {
	server := canned.ListOf(b, "application/vnd.kubernetes.protobuf", fleet.New(fleet.Config{Pods: savedPods}).All())
	for _, layout := range []Layout{LayoutShared, LayoutCompact} {
		b.Run(fmt.Sprintf("layout=%s", layout), func(b *testing.B) {
			storage := &counting{}
			client := clientOf(b, server)
			inf := New(client, podResource, Config[*corev1.Pod]{
				Layout:    layout,
				WarmStart: WarmStartConfig{Storage: storage, Interval: 24 * time.Hour},
				PagedList: true,
				Logger:    slog.New(slog.DiscardHandler),
			})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = inf.Run(ctx) })
			defer running.Wait()
			defer cancel()
			if err := inf.WaitSynced(ctx); err != nil {
				b.Fatal(err)
			}
			if layout == LayoutCompact {
				benchmarkSave(b, packedFollowerOf(inf), inf.config.WarmStart, client, storage)
			} else {
				benchmarkSave(b, followerOf(inf), inf.config.WarmStart, client, storage)
			}
		})
	}
}

func benchmarkSave[T Object](b *testing.B, f *core.Informer[T], warm WarmStartConfig, client *Client, storage *counting) {
	r, writer, version := mirrorOf(f).Feeds[0], StoreWriter[T]{(*Store[T])(f.Store())}, 1
	save := func(ctx context.Context) error {
		version++ // or nothing would be saved
		if err := writer.Apply(Delta[T]{Type: Bookmarked, ResourceVersion: fmt.Sprint(version)}); err != nil {
			return err
		}
		mirrorOf(f).Saver().Save(ctx, false)
		return r.Loop.Saved.Status().SaveError
	}
	for _, first := range []bool{true, false} {
		b.Run(fmt.Sprintf("first=%v", first), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if first {
					c := savedConfig(client, podResource, Config[T]{WarmStart: warm}, slog.Default())
					r.Loop.Saved = reflector.NewSaved(c, r.Loop.Source, r.Loop.Decoder)
				}
				if err := save(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(storage.bytes), "file-B")
		})
	}
	all := f.Store().Snapshot().List()
	for _, saving := range []bool{false, true} {
		b.Run(fmt.Sprintf("write/saving=%v", saving), func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() {
				var err error
				for saving && ctx.Err() == nil && err == nil {
					err = save(ctx)
				}
				ended <- err
			}()
			i := 0
			for b.Loop() {
				if err := writer.Apply(Delta[T]{Type: Removed, Object: all[i%len(all)]}, Delta[T]{Type: Upserted, Object: all[i%len(all)]}); err != nil {
					b.Fatal(err)
				}
				i++
			}
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				b.Fatal(err)
			}
		})
	}
}
