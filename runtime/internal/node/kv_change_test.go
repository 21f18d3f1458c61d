package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
)

// A handler notes the changes that it has handled, in the turns that were not undone.
type handler struct {
	mu   sync.Mutex
	seen []string
	fail func(c *host.KVChange, t host.Turn) error // may be nil
}

func (h *handler) types() []*puppetType {
	return []*puppetType{{
		name: "p", idle: time.Minute, maps: []host.Map{{Name: "m", Log: true, LogEvents: 50, Handler: "changed"}, {Name: "n", Log: true, LogEvents: 1}},
		change: func(p *puppet, t host.Turn, c *host.KVChange) error {
			p.s.Log = append(p.s.Log, fmt.Sprintf("%s%q=%s", c.Cause, c.Key[4:len(c.Key)-1], c.Value))
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.fail != nil {
				if err := h.fail(c, t); err != nil {
					return err
				}
			}
			h.seen = append(h.seen, fmt.Sprintf("%s %s=%s", c.Cause, c.Key[4:len(c.Key)-1], c.Value))
			return nil
		},
	}}
}

func (h *handler) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.seen, ", ")
	h.seen = nil
	return text
}

// on sets what the handler does.
func (h *handler) on(f func(c *host.KVChange, t host.Turn) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = f
}

// handledLog returns what the state of actor a has of the handler.
func (g *stage) handledLog() (log []string) {
	g.must("a", func(p *puppet, _ host.Turn) error { log = slices.Clone(p.s.Log); return nil })
	return log
}

func TestChangesOfAMapAreHandledInOrder(t *testing.T) {
	var h handler
	bubble(t, nil, h.types(), func(t *testing.T, g *stage) {
		want := func(text string) {
			t.Helper()
			time.Sleep(100 * time.Millisecond)
			if got := h.text(); got != text {
				t.Errorf("handled %s\nnot     %s", got, text)
			}
		}
		g.kv("m.a=1", "n.a=1", "x=1", "m.b=2@5000", "m.a=3")
		want("set a=1, set b=2, set a=3")
		g.kv("n.a=1")
		g.kv("-m/", "-m.no")
		want("delete_range a=, delete_range b=")
		g.kv("m.c=1@1000")
		want("set c=1")
		g.mustVerb("a", host.ActorSleep, nil, nil)
		time.Sleep(5 * time.Second)
		want("expired c=")
		if st := g.status("a"); st.State != host.Awake {
			t.Errorf("the actor is %s", st.State)
		}

		// One that fails, or panics, leaves nothing, hurts nothing, and is tried again, before those behind it.
		failed := 0
		h.on(func(c *host.KVChange, turn host.Turn) error {
			if string(c.Value) != "7" || failed == 4 {
				return nil
			}
			if failed++; failed%2 == 0 {
				panic("it panics")
			}
			return errors.Join(turn.KVPut([]byte("\x02m\x00\x02undone\x00"), nil, host.EncodedJSON, time.Time{}), errors.New("it fails"))
		})
		g.kv("m.d=6", "m.d=7", "m.d=8")
		want("set d=6")
		var out kv.GetOutput
		if g.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"m", "undone"}}, &out); out.Entry != nil {
			t.Error("the handler that failed has written")
		}
		if why := fmt.Sprint(g.whyOf("a")); !strings.Contains(why, "changes of the map m, whose handler has failed") {
			t.Error(why)
		}
		time.Sleep(20 * time.Second)
		want("set d=7, set d=8")
		h.mu.Lock()
		if failed != 4 {
			t.Errorf("it has failed %d times", failed)
		}
		h.mu.Unlock()

		// What is undone alone is not handled.
		g.must("a", func(_ *puppet, turn host.Turn) error {
			put := func(key string) error {
				return turn.KVPut([]byte("\x02m\x00\x02"+key+"\x00"), []byte("1"), host.EncodedJSON, time.Time{})
			}
			undone, err := turn.(kv.Committer).KVUpdate(func() error { return errors.Join(put("p"), errors.New("no")) })
			if !undone || err == nil {
				t.Error(undone, err)
			}
			return put("q")
		})
		want("set q=1")

		// What it writes is handled, too.
		h.on(func(c *host.KVChange, turn host.Turn) error {
			if n := c.Value[0]; n > '0' && n < '9' {
				return turn.KVPut(c.Key, []byte{n - 1}, host.EncodedJSON, time.Time{})
			}
			return nil
		})
		g.kv("m.e=3", "m.f=0")
		want("set e=3, set f=0, set e=2, set e=1, set e=0")

		// More than is kept, while it is paused: the handler is told.
		var missed []uint64
		h.on(func(c *host.KVChange, _ host.Turn) error {
			missed = append(missed, c.Missed)
			return nil
		})
		g.mustVerb("a", host.ActorPause, host.PauseInput{}, nil)
		for i := range 70 {
			g.kv(fmt.Sprintf("m.g=%d", i))
		}
		time.Sleep(time.Second)
		if h.text() != "" {
			t.Error("a paused actor handles changes")
		}
		g.mustVerb("a", host.ActorResume, nil, nil)
		time.Sleep(time.Second)
		h.mu.Lock()
		if n := len(h.seen); n != 50 || missed[0] != 20 || slices.Max(missed[1:]) != 0 || h.seen[0] != "set g=20" {
			t.Errorf("%d are handled, %v missed, from %s on", n, missed, h.seen[0])
		}
		h.mu.Unlock()
		if log := g.handledLog(); log[len(log)-1] != `set"g"=69` || slices.ContainsFunc(log, func(s string) bool { return strings.Contains(s, "undone") }) {
			t.Errorf("the state has %q", log)
		}
	})
}

// TestChangesAreHandledOnceWhateverTheCrash lets the power fail after every write and sync while a map changes: what is left is handled
// after the start, and the state has each change once.
func TestChangesAreHandledOnceWhateverTheCrash(t *testing.T) {
	const changes = 12
	var h handler
	bubble(t, nil, h.types(), func(t *testing.T, g *stage) {
		change := func(g *stage, i int) { g.kv(fmt.Sprintf("m.k=%d", i), fmt.Sprintf("n.k=%d", i)) }
		var clones []*engine.Disk
		g.cuts(func(left *engine.Disk) { clones = append(clones, left) }, func() {
			for i := range changes {
				change(g, i)
			}
			time.Sleep(time.Second)
		})
		part := 0
		for i, disk := range clones {
			m := stageOn(t, disk, nil, g.types...)
			time.Sleep(time.Second)
			var out kv.GetOutput
			m.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"m", "k"}}, &out)
			n := 0
			if out.Entry != nil {
				fmt.Sscan(string(out.Entry.Value), &n)
				n++
			}
			part += min(n%changes, 1)
			for ; n < changes; n++ {
				change(m, n)
			}
			time.Sleep(time.Second)
			for k, line := range m.handledLog() {
				if want := fmt.Sprintf(`set"k"=%d`, k); line != want {
					t.Errorf("cut %d: %s is handled, not %s", i, line, want)
				}
			}
			if n := len(m.handledLog()); n != changes {
				t.Errorf("cut %d: %d changes are handled", i, n)
			}
			m.stop()
		}
		t.Logf("%d cuts, %d amid the changes", len(clones), part)
	})
}

// Other entries push the changes of a map out of the log before they are handled. The handler is told that some are missing.
func TestAHandlerIsToldThatChangesAreMissing(t *testing.T) {
	var h handler
	var missed []uint64
	bubble(t, nil, h.types(), func(t *testing.T, g *stage) {
		h.on(func(c *host.KVChange, _ host.Turn) error {
			missed = append(missed, c.Missed)
			return nil
		})
		g.kv("x=1")
		g.mustVerb("a", host.ActorPause, host.PauseInput{}, nil)
		g.kv("m.a=1", "m.b=1")
		for i := range 70 {
			g.kv(fmt.Sprintf("n.g=%d", i))
		}
		g.mustVerb("a", host.ActorResume, nil, nil)
		time.Sleep(time.Second)
		g.kv("m.c=1")
		time.Sleep(time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(missed) != 1 || missed[0] == 0 {
			t.Errorf("two changes are lost, and the handler is told %v", missed)
		}
	})
}
