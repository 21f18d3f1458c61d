package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

const secretCause = "dial tcp 10.0.0.7:25: no route to host"

// failing is a deed that fails with an error of an application.
func failing(*puppet, host.Turn) error { return errors.New(secretCause) }

// cbor calls a built-in method with CBOR, which puppets need not convert.
func (g *stage) cbor(key, name string, in, out any) error {
	g.t.Helper()
	input, err := wire.Output.Marshal(in)
	if err != nil {
		g.t.Fatal(err)
	}
	reply, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: name, Codec: host.CBOR, Input: input})
	if err == nil && out != nil {
		if err := wire.Input.Unmarshal(reply.Output, out); err != nil {
			g.t.Fatal(err)
		}
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
			if err := g.cbor("a", method, host.QueueListInput{Queue: "mail"}, &list); err != nil {
				t.Fatal(err)
			}
			if len(list.Messages) != 1 || !strings.HasPrefix(list.Messages[0].Error, secretCause+" (error ") {
				t.Errorf("%s shows %+v", method, list.Messages)
			}
			time.Sleep(time.Hour) // the second attempt is the last
		}
		var result host.QueueResultOutput
		if err := g.cbor("a", host.QueueResult, host.QueueResultInput{Queue: "mail", ID: id}, &result); err != nil {
			t.Fatal(err)
		}
		if result.Error == nil || result.Error.Code != host.Internal || strings.Contains(result.Error.Error(), "10.0.0.7") {
			t.Errorf("the sender reads %+v", result.Error)
		}
	})
}
