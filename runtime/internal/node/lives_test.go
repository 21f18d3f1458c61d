package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// A row of the wake index that no record is behind would come up again and again.
func TestRowOfTheWakeIndexWithoutARecordIsRemovedWhenItIsDue(t *testing.T) {
	for _, kind := range []keyspace.WakeKind{keyspace.WakeAlarm, keyspace.WakeSchedule, keyspace.WakeConnections, keyspace.WakeRun} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				due := time.Now().Add(time.Minute).UnixMilli()
				g.must("a", func(p *puppet, h host.Turn) error {
					p.s.N++
					name := "ring"
					if kind == keyspace.WakeRun {
						name = ""
					}
					kernelTurn(h).Core.Rows.SetWake(due, kind, name, "")
					return nil
				})
				rows := func() int {
					all, err := g.store.Wakes(nil, due, 100)
					if err != nil {
						t.Fatal(err)
					}
					return len(all)
				}
				before := rows()
				time.Sleep(2 * time.Minute)
				if after := rows(); before != 1 || after != 0 {
					t.Errorf("%d rows stood before it was due, and %d after", before, after)
				}
			})
		})
	}
}

// farewell is a destroyer that sends a message, as the part of workflow runs does for the run of a child.
type farewell struct{ f deed }

func (x farewell) Destroy(t *kernel.Turn) error {
	return mail.MailOf(t).Post(pAddr("b"), "do", remember(x.f))
}

func TestMessageThatADestroyerIsTheFirstToSendIsOfTheRemains(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		typ := g.Kernel.Types["p"]
		typ.Hooks.Destroyers = append(typ.Hooks.Destroyers, farewell{add(1)})
		g.must("b", add(0))
		g.must("a", add(1))
		a := g.Find(pAddr("a"))
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if s := mail.Mail(a); s.Part != nil && !s.Closed {
			t.Errorf("the sender of the destroyed actor still sends; %d messages are pending", s.Pending)
		}
		if g.Find(pAddr("a")) != nil {
			t.Error("the destroyed actor is still in memory")
		}
		if n := g.n("b"); n != 1 {
			t.Errorf("%d messages were handled", n)
		}
	})
}
