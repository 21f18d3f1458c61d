package node

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// A turn of the sender binds a message to its target. If that turn comes when the sender was destroyed and made again, the
// message is of the first life, and nothing of it is written in the second.
func TestMessageThatIsToBeBoundIsNotInheritedByTheNextLifeOfItsSender(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		disk, hold := make(chan struct{}), make(chan struct{})
		g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				<-disk
			}
			return nil
		})
		errs := make(chan error, 4)
		for _, f := range []func() error{
			func() error { return g.do("a", sends("new", 1, add(1))) },
			func() error { return g.do("a", func(*puppet, host.Turn) error { <-hold; return nil }) },
			func() error { return g.Destroy(t.Context(), pAddr("a")) },
			func() error { return g.do("a", add(1)) },
		} {
			go func() { errs <- f() }()
			synctest.Wait()
		}
		g.disk.Fail(nil)
		close(disk) // the binding goes behind everything that waits in the mailbox
		synctest.Wait()
		close(hold)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if st, n := g.status("a"), g.n("new"); st.PendingSends != 0 || n != 1 {
			t.Errorf("%d messages of the second life wait, and %d of the first were handled", st.PendingSends, n)
		}
		g.restart()
		time.Sleep(time.Minute)
		if n, rows := g.n("new"), g.atZero(); n != 1 || len(rows) != 0 {
			t.Errorf("after a restart %d messages were handled, %d rows stand at 0", n, len(rows))
		}
	})
}

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

// The same input means another request if the method is another.
func TestIdempotencyKeyIsRefusedForAnotherMethod(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		call := func(method string, input []byte) error {
			_, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: method, Codec: host.JSON, Input: input, IdempotencyKey: "k"})
			return err
		}
		input := remember(add(1))
		if err := errors.Join(call("do", input), call("do", input)); err != nil {
			t.Fatal(err)
		}
		wantCode(t, call(host.ActorPause, input), host.IdempotencyMismatch)
		if n, st := g.n("a"), g.status("a"); n != 1 || st.Pause != nil {
			t.Errorf("it ran %d times, and its pause is %v", n, st.Pause)
		}
	})
}
