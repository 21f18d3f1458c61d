package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

const printed = `order 1001 (completed): on its way as Zurich-1001
  purchase/reserve: completed
  purchase/charge: completed
  purchase/ship: completed
  purchase/settle: completed
order 1002 (failed): refused: 9 ordered, 3 in stock
  purchase/reserve: failed
  settle: completed
order 1003 (failed): refused: nobody drives to that place
  purchase/reserve: undone
  purchase/charge: undone
  purchase/ship: failed
  settle: completed
order 1004 (failed): refused: the account does not cover it
  purchase/reserve: undone
  purchase/charge: failed
  settle: completed
teapots in stock: 3
ann has 52.00
ben has 500.00
cid has 10.00
`

func expect(t *testing.T, node actor.Node) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), node, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != printed {
		t.Errorf("got\n%s\nexpected\n%s", got, printed)
	}
}

func TestOrders(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		expect(t, h)
		h.Restart()
		expect(t, h) // nothing happens twice
	}, definitions(new(post))...)
}

// A cut is a carrier that cuts the power after it has fetched a parcel, or refused to, and before
// the caller gets its reply.
type cut struct {
	post
	at   string
	then func()
}

func (c *cut) Fetch(ctx context.Context, reference, order, place string) (string, error) {
	parcel, err := c.post.Fetch(ctx, reference, order, place)
	if order == c.at && c.then != nil {
		then := c.then
		c.then = nil
		then()
		<-ctx.Done()
		return "", ctx.Err()
	}
	return parcel, err
}

// The power fails while the carrier is on the phone. The order goes on by itself when the node is
// back; nobody pays twice.
func TestOrdersGoOnAfterAPowerCut(t *testing.T) {
	for _, at := range []string{"1001", "1003"} {
		carrier := &cut{at: at}
		actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
			now := make(chan struct{})
			carrier.then = func() { close(now) }
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- run(ctx, h, new(bytes.Buffer)) }()
			<-now
			stop()
			<-done
			h.Crash()
			h.Settle()
			expect(t, h)
		}, definitions(carrier)...)
	}
}

// The power fails at any time.
func TestOrdersSurvivePowerCutsAtAnyTime(t *testing.T) {
	config := actortest.Config{UnsyncedPercent: 50}
	config.Run(t, func(t *testing.T, h *actortest.Harness) {
		for i := range 12 {
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(i)*30*time.Millisecond)
			err := run(ctx, h, new(bytes.Buffer))
			stop()
			if err == nil {
				break
			}
			h.Crash()
		}
		expect(t, h)
	}, definitions(new(slow))...)
}

// A slow carrier takes its time, and is busy at first.
type slow struct{ post }

func (c *slow) Fetch(ctx context.Context, reference, order, place string) (string, error) {
	time.Sleep(50 * time.Millisecond)
	return c.post.Fetch(ctx, reference, order, place)
}

func TestDefinitionsAreSound(t *testing.T) {
	for _, d := range definitions(new(post)) {
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", d.Type(), err)
		}
	}
}

func TestProgramOpensADirectory(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		var out bytes.Buffer
		if err := open(t.Context(), dir, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "teapots in stock: 3") {
			t.Error(out.String())
		}
	}
}
