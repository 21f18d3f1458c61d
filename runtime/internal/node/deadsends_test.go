package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// giveUp keeps messages of the actor "a" that were given up, from a number on.
func giveUp(g *stage, first uint64, n int, message mail.MessageRecord, reason string) {
	g.t.Helper()
	message.Type, message.Key, message.Method = "p", []string{"shut"}, "do"
	g.must("a", func(_ *puppet, h host.Turn) error {
		t := kernelTurn(h)
		if err := t.Enter(); err != nil {
			return err
		}
		defer t.Mu.Unlock()
		for i := range uint64(n) {
			f := mail.FailedRecord{Message: message, Failed: t.Start.UnixMilli(), Reason: reason}
			if err := mail.KeepDeadSend(t.Core, t, first+i, &f); err != nil {
				return err
			}
		}
		return nil
	})
}

const secretCause = "dial tcp 10.0.0.7:25: no route to host"

// failing is a deed that fails with an error of an application.
func failing(*puppet, host.Turn) error { return errors.New(secretCause) }

// cbor calls a built-in method with CBOR, which puppets need not convert.
func (g *stage) cbor(key, name string, in, out any) error {
	g.t.Helper()
	input, err := wire.Output.Marshal(in)
	must(g.t, err)
	reply, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: name, Codec: host.CBOR, Input: input})
	if err == nil && out != nil {
		must(g.t, wire.Input.Unmarshal(reply.Output, out))
	}
	return err
}

func TestOperatorsReadWhyAMessageFailedAndItsSenderDoesNot(t *testing.T) {
	d := &puppetType{name: "p", message: failing, queues: []host.Queue{{Name: "mail", Handler: "puppet.mail", Backoff: []time.Duration{time.Hour}, ReplyFor: 24 * time.Hour}}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		var id uint64
		g.must("a", func(_ *puppet, h host.Turn) error {
			sent, err := h.Enqueue("mail", []host.Enqueue{{Body: []byte{1}, WantReply: true}})
			id = sent[0].ID
			return err
		})
		for _, method := range []string{host.QueuePeek, host.QueueDeadList} {
			time.Sleep(time.Minute)
			var list host.QueueListOutput
			must(t, g.cbor("a", method, host.QueueListInput{Queue: "mail"}, &list))
			errorIf(t, len(list.Messages) != 1 || !strings.HasPrefix(list.Messages[0].Error, secretCause+" (error "),
				"%s shows %+v", method, list.Messages)
			time.Sleep(time.Hour) // the second attempt is the last
		}
		var result host.QueueResultOutput
		must(t, g.cbor("a", host.QueueResult, host.QueueResultInput{Queue: "mail", ID: id}, &result))
		errorIf(t, result.Error == nil || result.Error.Code != host.Internal || strings.Contains(result.Error.Error(), "10.0.0.7"),
			"the sender reads %+v", result.Error)
	})
}

// Messages are given up whatever their size and their error. The oldest go first, and ones that have expired take no room.
func TestMessagesThatWereGivenUpAreBounded(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 1}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		long := strings.Repeat("long ", 1<<16)
		drop := func(sizes ...int) {
			t.Helper()
			for _, n := range sizes {
				input := append(remember(nil), make([]byte, n)...)
				deeds.Store(string(input), deed(func(*puppet, host.Turn) error { return errors.New(long) }))
				g.must("a", func(_ *puppet, h host.Turn) error {
					return h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: input})
				})
				defer deeds.Delete(string(input))
			}
			time.Sleep(time.Minute)
		}
		oldest := func() host.DeadLetter {
			t.Helper()
			var out host.SendListOutput
			must(t, g.cbor("a", host.SendDeadList, host.SendListInput{Limit: 1}, &out))
			return out.Messages[0]
		}
		drop(0, 1<<17)
		letters := kernel.PartOf[*mail.Part](g.Kernel)
		for name, c := range map[string]prometheus.Counter{"sent": letters.Sent, "failed": letters.Failures, "given up": letters.Failed} {
			var m dto.Metric
			if err := c.Write(&m); err != nil || m.Counter.GetValue() != 2 {
				t.Errorf("%v messages %s", m.Counter.GetValue(), name)
			}
		}
		if m := oldest(); len(m.Error) != mail.MaxDeadReason {
			t.Errorf("%d bytes of the error are kept", len(m.Error))
		}
		// The largest one is not sent: each copy of it takes its time under the race detector.
		giveUp(g, 1, 1, mail.MessageRecord{Input: make([]byte, mail.MaxMessageBytes-100)}, long)
		giveUp(g, 2, mail.MaxDeadSends-3, mail.MessageRecord{}, "")
		same(t, oldest().ID, 1, "the oldest")
		g.restart()
		giveUp(g, 1<<40, 5, mail.MessageRecord{}, "")
		same(t, oldest().ID, 6, "the oldest after five more")
		var count host.CountOutput
		err := g.cbor("a", host.SendDeadDelete, host.SendSelectInput{All: true}, &count)
		fatalIf(t, err != nil || count.Count != mail.MaxDeadSends || count.More, "%+v, %v", count, err)
		g.must("a", func(_ *puppet, h host.Turn) error {
			mail.Post(kernelTurn(h).Core).Dead.Value = mail.MaxDeadSends // the other ones have expired since they were counted
			return nil
		})
		drop(0)
		st := g.status("a")
		errorIf(t, st.PendingSends != 0, "%+v", st)
	})
}
