package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"
)

// A program has synced once each of its parts that began to wait has ended to, and none begins again for a while.
func TestLogTellsWhenAllHasSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		used := time.Duration(0)
		f := &follower{file: &file, processor: func() (time.Duration, error) { return used, nil }, ready: readiness{
			waits: regexp.MustCompile("waits"), done: regexp.MustCompile("done|collector"), silent: 1}}
		log := func(text string) {
			t.Helper()
			used += time.Second
			time.Sleep(time.Second)
			if _, err := f.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		check := func(after string, want bool) {
			t.Helper()
			if _, _, ok := f.synced(time.Now().Add(quiet)); ok != want {
				t.Errorf("after %q: synced is %t", after, ok)
			}
		}
		check("nothing", false)
		log("a waits\nb wai")
		log("ts\nother\na done\ncollector\n")
		check("two of three", false)
		log("b done\n")
		check("three of three", true)
		if _, _, ok := f.synced(time.Now()); ok {
			t.Error("it has synced without waiting for further parts")
		}
		log("c waits\n")
		check("a fourth", false)
		log("c done\n")
		want := time.Now()
		log("other\n")
		if end, used, ok := f.synced(want.Add(quiet)); !ok || !end.Equal(want) || used != 5*time.Second {
			t.Errorf("synced at %v with %v, %t; want %v with 5s", end, used, ok, want)
		}
		if file.String() != "a waits\nb waits\nother\na done\ncollector\nb done\nc waits\nc done\nother\n" {
			t.Errorf("the file has %q", file.String())
		}
	})
}

// An error has the end of the log.
func TestTail(t *testing.T) {
	f := &follower{file: &bytes.Buffer{}}
	for range 2 * lastBytes {
		_, _ = f.Write([]byte("a"))
	}
	_, _ = f.Write([]byte("end"))
	if tail := f.tail(); len(tail) != lastBytes || tail[lastBytes-3:] != "end" {
		t.Errorf("a tail of %d bytes", len(tail))
	}
}

// A step waits until the state is right, and fails with the last state after its time.
func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		after := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error {
				if time.Since(begun) < d {
					return notYet("too early")
				}
				return nil
			}
		}
		if err := (step{"s", nothing, after(stepTimeout / 2)}).run(t.Context()); err != nil {
			t.Error(err)
		}
		err := step{"s", nothing, all(after(0), after(time.Hour))}.run(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNotYet) {
			t.Errorf("a state that does not come: %v", err)
		}
		fails := errors.New("do")
		if err := (step{"s", func(context.Context) error { return fails }, after(0)}).run(t.Context()); err != fails {
			t.Errorf("an action that fails: %v", err)
		}
	})
}
