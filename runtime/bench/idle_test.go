package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	loggedMessages, warmDatabases = 50, 8
	if what := os.Getenv(asHolder); what != "" {
		hold(what)
		return
	}
	os.Exit(m.Run())
}

func TestIdleWebSocketsTakeMemoryOfAnotherProcess(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	for _, what := range []string{"node", "bare"} {
		if v := b.idle(what, 100); v.heap < 1<<10 || v.heap > 1<<20 || v.resident > 1<<20 {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

func TestEveryItemOfAStreamIsFollowed(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 10 * time.Millisecond}
	for _, size := range []int{1, 10} {
		if v := b.streamed(size); v <= 0 {
			t.Errorf("%d at a time: %v items a second", size, v)
		}
	}
}
