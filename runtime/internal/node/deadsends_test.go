package node

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"

	dto "github.com/prometheus/client_model/go"

	"github.com/cairn-run/cairn/actor/host"
)

// shop is a stage with a sender "a" whose n messages to the actor "shut", which adds them up, were given up.
func shop(t *testing.T, n int, run func(t *testing.T, g *stage, open *atomic.Bool)) {
	t.Helper()
	var open atomic.Bool
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		g.must("a", func(_ *puppet, h host.Turn) error {
			for range n {
				input := remember(deed(func(p *puppet, t host.Turn) error {
					if !open.Load() {
						return failing(p, t)
					}
					p.s.N++
					return nil
				}))
				if err := h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: input}); err != nil {
					return err
				}
			}
			return nil
		})
		synctest.Wait()
		if st := g.status("a"); st.FailedSends != n || st.PendingSends != 0 {
			t.Fatalf("%+v", st)
		}
		run(t, g, &open)
	})
}

func (g *stage) deadSends(in host.SendListInput) (out host.SendListOutput) {
	g.t.Helper()
	if err := g.cbor("a", host.SendDeadList, in, &out); err != nil {
		g.t.Fatal(err)
	}
	return out
}

func TestMessagesThatExpiredTakeNoRoomOfNewOnes(t *testing.T) {
	types := []*puppetType{{name: "p", idle: -1, limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		drop(t, g, errors.New("no"), 0, 0)
		g.must("a", func(_ *puppet, h host.Turn) error {
			mail.Post(kernelTurn(h).Core).Dead.Value = mail.MaxDeadSends // the other ones have expired since they were counted
			return nil
		})
		drop(t, g, errors.New("no"), 0)
	})
}

// drop gives up messages of the actor "a" to "shut" whose inputs have these sizes.
func drop(t *testing.T, g *stage, cause error, sizes ...int) {
	t.Helper()
	before := 0
	if st, err := g.Lookup(t.Context(), pAddr("a")); err == nil {
		before = st.FailedSends
	}
	for _, n := range sizes {
		input := append(remember(nil), make([]byte, n)...)
		deeds.Store(string(input), deed(func(*puppet, host.Turn) error { return cause }))
		t.Cleanup(func() { deeds.Delete(string(input)) })
		g.must("a", func(_ *puppet, h host.Turn) error {
			return h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: input})
		})
	}
	time.Sleep(time.Minute)
	if st := g.status("a"); st.FailedSends != before+len(sizes) || st.PendingSends != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestAMessageIsGivenUpWhateverItsSizeAndItsError(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		drop(t, g, errors.New(strings.Repeat("long ", 1<<16)), 0, mail.MaxMessageBytes-100)
		letters := kernel.PartOf[*mail.Part](g.Kernel)
		for name, c := range map[string]prometheus.Counter{"sent": letters.Sent, "failed": letters.Failures, "given up": letters.Failed} {
			var m dto.Metric
			if err := c.Write(&m); err != nil || m.Counter.GetValue() != 2 {
				t.Errorf("%v messages %s", m.Counter.GetValue(), name)
			}
		}
		for _, m := range g.deadSends(host.SendListInput{Limit: 1}).Messages {
			if len(m.Error) != mail.MaxDeadReason {
				t.Errorf("%d bytes of the error are kept", len(m.Error))
			}
		}
		wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
			return h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: make([]byte, mail.MaxMessageBytes)})
		}), host.TooLarge)
	})
}

func TestMessagesThatWereGivenUpAreForOperatorsOfAFullActor(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		drop(t, g, errors.New("no"), 3000, 3000, 3000, 100_000, 100_000)
		g.mustVerb("a", host.LimitsSet, host.ActorLimits{WriteSetBytes: whole(4096), StorageBytes: whole(1)}, nil)
		large := g.deadSends(host.SendListInput{}).Messages[4].ID
		var count host.CountOutput
		g.mustVerb("a", host.SendDeadDelete, host.SendSelectInput{IDs: []uint64{large}}, &count)
		if count.Count != 1 || count.More {
			t.Errorf("%+v", count)
		}
		g.mustVerb("a", host.SendDeadRequeue, host.SendSelectInput{All: true}, &count)
		time.Sleep(time.Minute)
		// The target refuses them again.
		if st := g.status("a"); count.Count != 4 || count.More || st.FailedSends != 4 || st.PendingSends != 0 {
			t.Errorf("%+v; %+v", count, st)
		}
	})
}

func TestManyBytesOfMessagesAreSentAgainByParts(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		drop(t, g, errors.New("no"), mail.MaxRequeuedBytes, mail.MaxRequeuedBytes, 10)
		in := host.SendSelectInput{}
		for _, m := range g.deadSends(host.SendListInput{}).Messages {
			in.IDs = append(in.IDs, m.ID)
		}
		for _, want := range []host.CountOutput{{Count: 1, More: true}, {Count: 1, More: true}, {Count: 1}} {
			var got host.CountOutput
			if g.mustVerb("a", host.SendDeadRequeue, in, &got); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}

func TestTheOldestMessagesThatWereGivenUpGoFirst(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		giveUp := func(first, n int) {
			g.must("a", func(_ *puppet, h host.Turn) error {
				t := kernelTurn(h)
				if err := t.Enter(); err != nil {
					return err
				}
				defer t.Mu.Unlock()
				for i := range n {
					f := mail.FailedRecord{Message: mail.MessageRecord{Type: "p", Key: []string{"shut"}, Method: "do"}, Failed: t.Start.UnixMilli()}
					if err := mail.KeepDeadSend(t.Core, t, uint64(first+i), &f); err != nil {
						return err
					}
				}
				return nil
			})
		}
		giveUp(1, mail.MaxDeadSends)
		if list := g.deadSends(host.SendListInput{Limit: 1}); list.Messages[0].ID != 1 {
			t.Fatalf("the oldest is %d", list.Messages[0].ID)
		}
		g.restart()
		giveUp(1+mail.MaxDeadSends, 5)
		if list := g.deadSends(host.SendListInput{Limit: 1}); list.Messages[0].ID != 6 {
			t.Fatalf("the oldest is %d", list.Messages[0].ID)
		}
		var count host.CountOutput
		if err := g.cbor("a", host.SendDeadDelete, host.SendSelectInput{All: true}, &count); err != nil || count.Count != mail.MaxDeadSends || count.More {
			t.Fatalf("%+v, %v", count, err)
		}
	})
}

func TestAMessageThatWasGivenUpShowsItsInputAsJSON(t *testing.T) {
	input, err := wire.Output.Marshal(map[string]any{"to": "ada", "n": 7, "raw": []byte{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(mail.JsonOf(input)); got != `{"n":7,"raw":"AQI=","to":"ada"}` {
		t.Error(got)
	}
	for _, bad := range []string{"", "\xff", "\xa1\x01\x02"} { // a map whose keys are numbers has no form in JSON
		if got := mail.JsonOf([]byte(bad)); got != nil {
			t.Errorf("%q is shown as %q", bad, got)
		}
	}
}
