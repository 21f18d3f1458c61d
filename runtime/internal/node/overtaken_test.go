package node

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// sends posts messages from the actor "sender" to the actor "receiver", each of which does a deed.
func (g *stage) sends(deeds ...deed) {
	g.t.Helper()
	g.must("sender", func(_ *puppet, h host.Turn) error {
		for _, d := range deeds {
			if err := h.Send(&host.Message{Type: "p", Key: []string{"receiver"}, Method: "do", Input: remember(d)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantSettled fails if messages of the sender wait, or if another number than dead were given up.
func (g *stage) wantSettled(dead int) {
	g.t.Helper()
	var out host.SendListOutput
	must(g.t, g.cbor("sender", host.SendDeadList, host.SendListInput{}, &out))
	if n := g.status("sender").PendingSends; n > 0 || len(out.Messages) != dead {
		g.t.Errorf("%d messages wait, %d are dead letters, want %d", n, len(out.Messages), dead)
	}
}

// busy keeps the sender busy, so that it settles nothing.
func (g *stage) busy(d time.Duration) {
	go func() { _ = g.do("sender", func(*puppet, host.Turn) error { time.Sleep(d); return nil }) }()
	time.Sleep(time.Second)
}

// A target remembers the last message that it handled. An earlier one that was given up would count
// as handled, too, if a crash came before it is a dead letter.
func TestAMessageThatIsGivenUpIsADeadLetterBeforeTheNextIsHandled(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}, func(t *testing.T, g *stage) {
		g.sends(func(*puppet, host.Turn) error { time.Sleep(2 * time.Second); return errors.New("bad") }, add(1))
		g.busy(10 * time.Second)
		time.Sleep(2 * time.Second)
		g.crash()
		time.Sleep(time.Minute)
		same(t, g.n("receiver"), 1)
		g.wantSettled(1)
	})
}

// An operator cannot give up a handled message, even if a crash came before that was settled: to
// send it again would handle it twice.
func TestAMessageThatWasHandledIsNotGivenUp(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("receiver", func(*puppet, host.Turn) error { return nil })
		g.must("sender", func(_ *puppet, h host.Turn) error { return nil })
		g.sends(func(p *puppet, _ host.Turn) error { time.Sleep(100 * time.Millisecond); p.s.N++; return nil })
		g.busy(10 * time.Second)
		g.mustVerb("receiver", host.ActorPause, map[string]any{"reason": "x"}, nil)
		g.crash()
		time.Sleep(time.Second)
		var out host.CountOutput
		g.mustVerb("sender", host.SendSkip, host.SendSkipInput{Type: "p", Key: []string{"receiver"}}, &out)
		g.mustVerb("receiver", host.ActorResume, nil, nil)
		time.Sleep(time.Minute)
		g.wantSettled(0)
		same(t, g.n("receiver"), 1, "handled")
	})
}

// Messages share a commit. A message that does not return takes those before it along, which did
// nothing wrong.
func TestAMessageThatHangsIsGivenUpAlone(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 3, TurnTimeout: time.Second}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		for range 50 { // the runtime sees that the handler is quick
			g.must("receiver", add(1))
		}
		g.sends(add(100), add(100), func(*puppet, host.Turn) error { time.Sleep(10 * time.Minute); return nil }, add(100))
		time.Sleep(5 * time.Hour)
		same(t, g.n("receiver"), 350)
		g.wantSettled(1)
	})
}

// A message that is lost with the commit that it shares with a call that hangs is tried again, and
// not blamed.
func TestAMessageThatACallTakesAlongIsNotGivenUp(t *testing.T) {
	types := []*puppetType{{
		name: "p", limits: host.Limits{SendAttempts: 1, TurnTimeout: time.Second},
		queues:  []host.Queue{{Name: "mail", Handler: "puppet.mail"}},
		message: func(*puppet, host.Turn) error { time.Sleep(500 * time.Millisecond); return nil },
	}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		for range 50 { // the runtime sees that the handler is quick
			g.must("receiver", add(1))
		}
		g.must("receiver", func(_ *puppet, h host.Turn) error {
			_, err := h.Enqueue("mail", []host.Enqueue{{Body: []byte{1}}})
			return err
		})
		time.Sleep(100 * time.Millisecond)
		g.sends(add(100))
		time.Sleep(100 * time.Millisecond)
		go func() {
			_ = g.do("receiver", func(*puppet, host.Turn) error { time.Sleep(10 * time.Minute); return nil })
		}()
		time.Sleep(5 * time.Hour)
		same(t, g.n("receiver"), 150)
		g.wantSettled(0)
	})
}
