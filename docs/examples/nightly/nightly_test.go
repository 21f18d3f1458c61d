package main

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// printing counts what is printed, and how much at once.
type printing struct {
	mu        sync.Mutex
	now, most int
	prints    map[string]int
	cut       chan struct{} // closed when two are printed
}

func (p *printing) print(ctx context.Context, text string) error {
	p.mu.Lock()
	p.now++
	p.most = max(p.most, p.now)
	takes := time.After(time.Minute)
	if p.cut != nil && len(p.prints) >= 2 {
		close(p.cut)
		p.cut, takes = nil, nil
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
	}()
	select {
	case <-takes:
		p.mu.Lock()
		p.prints[text]++
		p.mu.Unlock()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestBooksAreClosedEveryNight(t *testing.T) {
	for _, cut := range []string{"", "crash", "restart"} {
		t.Run(cut, func(t *testing.T) {
			p := &printing{prints: make(map[string]int)}
			actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
				now := make(chan struct{})
				if cut != "" {
					p.cut = now
				}
				company, err := found(t.Context(), h)
				if err != nil {
					t.Fatal(err)
				}
				if cut != "" {
					<-now // in the night
					if cut == "crash" {
						h.Crash()
					} else {
						h.Restart()
					}
				}
				time.Sleep(time.Until(time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)))
				if _, err := Use.Call(t.Context(), Tenants.Ref(h, "f"), 50); err != nil {
					t.Fatal(err)
				}
				if cut == "" {
					time.Sleep(24 * time.Hour)
				}
				c, err := Show.Call(t.Context(), company, actor.None{})
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				tell(&out, c.Reports)
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				if lines[0] != "night 1: 7 bills, 30.00" || !strings.Contains(lines[1], "nothing was used") {
					t.Errorf("got\n%s", out.String())
				}
				bills := 7
				if cut == "" { // a second night, for which only one tenant has used anything
					if bills++; len(lines) != 10 || lines[2] != "night 2: 1 bills, 0.50" {
						t.Errorf("got\n%s", out.String())
					}
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if len(p.prints) != bills || p.most > atOnce {
					t.Errorf("%d bills were printed, up to %d at once", len(p.prints), p.most)
				}
				// A bill whose printing, or the news of it, was lost with the power is printed
				// again: the body of a step runs at least once. Its result counts once.
				most := 2
				if cut == "" {
					most = 1
				}
				if slices.Max(slices.Collect(maps.Values(p.prints))) > most {
					t.Errorf("%v", p.prints)
				}
			}, press(p.print).definitions()...)
		})
	}
}

func TestProgram(t *testing.T) {
	var out bytes.Buffer
	if err := open(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = "night 1: 7 bills, 30.00\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s", out.String())
	}
	t.Log(out.String())
}
