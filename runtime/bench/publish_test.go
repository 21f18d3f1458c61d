package main

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestEveryEventOfTheOutboxIsPublishedOnce(t *testing.T) {
	const n = 150
	b := &bench{dir: t.TempDir()}
	ids := make(map[string]int)
	for _, m := range b.eventMessages(n) {
		ids[m.Header.Get(nats.MsgIdHdr)]++
		if d := len(m.Data) - len(lineData(0)); len(m.Header) < 7 || d < 0 || d > len("149")-len("0") {
			t.Fatalf("%s %v %s", m.Subject, m.Header, m.Data)
		}
	}
	if len(ids) != n {
		t.Errorf("%d different events came, want %d", len(ids), n)
	}
	if v := b.rawPublished(n); v <= 0 {
		t.Errorf("the twin publishes %v a second", v)
	}
}
