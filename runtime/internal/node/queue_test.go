package node

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// letters are n equal messages.
type letters struct {
	n int
	m host.Enqueue
}

// post puts messages into the queue "mail" of the actor "a" in one turn.
func (g *stage) post(all ...letters) {
	g.t.Helper()
	g.must("a", func(_ *puppet, h host.Turn) (err error) {
		for _, l := range all {
			for ; l.n > 0 && err == nil; l.n -= 100 {
				batch := make([]host.Enqueue, min(l.n, 100))
				for i := range batch {
					batch[i] = l.m
				}
				_, err = h.Enqueue("mail", batch)
			}
		}
		return err
	})
}

// clerk is a type whose handler records the last bytes of its messages. A body of 1 takes 10 s.
func clerk(came *[]byte, queues ...host.Queue) *puppetType {
	return &puppetType{name: "p", queues: queues, message: func(p *puppet, h host.Turn) error {
		*came = append(*came, p.msg.Body[len(p.msg.Body)-1])
		if len(p.msg.Body) > 1 {
			return errors.New("too long")
		}
		if p.msg.Body[0] == 1 {
			time.Sleep(10 * time.Second)
		}
		return nil
	}}
}

// A message behind any number of expired ones is handled, or a worker receives it.
func TestAMessageBehindManyThatExpiredIsReceived(t *testing.T) {
	var came []byte
	d := clerk(&came, host.Queue{Name: "mail", Handler: "puppet.mail"})
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.post(letters{1, host.Enqueue{Body: []byte{1}}},
			letters{3_500, host.Enqueue{Body: []byte{2}, TTL: 5 * time.Second}}, letters{1, host.Enqueue{Body: []byte{3}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, fmt.Sprint(came), "[1 3]")
	})
	d = clerk(&came, host.Queue{Name: "mail"})
	d.limits = host.Limits{WriteSetBytes: 1 << 20}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		for range 2 { // more than a turn may write
			g.post(letters{600, host.Enqueue{Body: append([]byte{0x59, 4, 0}, make([]byte, 1024)...), TTL: time.Minute}})
		}
		g.post(letters{1, host.Enqueue{Body: []byte{3}}})
		g.stop()
		time.Sleep(time.Hour)
		g.start()
		var out host.QueueReceiveOutput
		must(t, g.cbor("a", host.QueueReceive, host.QueueReceiveInput{Queue: "mail", Limit: 1, WaitMS: 20_000}, &out))
		same(t, len(out.Messages), 1)
	})
}

// Messages wait for a release that declares their queue, and are handled when it comes.
func TestMessagesOfAQueueThatWasNotDeclaredAreHandledWhenItIs(t *testing.T) {
	for _, without := range [][]host.Queue{nil, {{Name: "other", Handler: "puppet.mail"}}} {
		var came []byte
		mail := host.Queue{Name: "mail", Handler: "puppet.mail"}
		d := clerk(&came, mail)
		bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
			g.post(letters{1, host.Enqueue{Body: []byte{1}}})
			g.post(letters{1, host.Enqueue{Body: []byte{2}}})
			g.post(letters{1, host.Enqueue{Body: []byte{3}, Delay: time.Minute}})
			d.queues = without
			g.crash()
			time.Sleep(2 * time.Minute)
			for range 2 {
				g.restart()
				time.Sleep(time.Minute)
			}
			d.queues = append(without, mail)
			g.restart()
			time.Sleep(time.Minute)
			synctest.Wait()
			same(t, fmt.Sprint(came), "[1 2 3]")
		})
	}
}

// A message without a form in the codec of its worker fails, and does not stop those behind it.
func TestAMessageWithoutAFormInJSONStopsNoOther(t *testing.T) {
	d := &puppetType{name: "p", outside: true, queues: []host.Queue{{Name: "mail", Backoff: []time.Duration{}}}} // "bad" has none
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.post(letters{1, host.Enqueue{Body: []byte("\x63bad")}}, letters{1, host.Enqueue{Body: []byte("\x64good")}})
		var list, dead host.QueueListOutput
		g.mustVerb("a", host.QueuePeek, host.QueueListInput{Queue: "mail"}, &list)
		var out host.QueueReceiveOutput
		g.mustVerb("a", host.QueueReceive, host.QueueReceiveInput{Queue: "mail", Limit: 1}, &out)
		g.mustVerb("a", host.QueueDeadList, host.QueueListInput{Queue: "mail"}, &dead)
		if len(list.Messages) != 2 || len(out.Messages) != 1 || string(out.Messages[0].Body) != `"good"` || len(dead.Messages) != 1 {
			t.Errorf("%+v, %+v, %+v", list, out, dead)
		}
	})
}

// The bodies that a message leaves under its keys may be more than a turn writes.
func TestAMessageIsGivenUpThoughItsKeysDoNotFitIntoATurn(t *testing.T) {
	var came []byte
	d := clerk(&came, host.Queue{Name: "mail", Handler: "puppet.mail", Backoff: []time.Duration{}})
	d.limits = host.Limits{WriteSetBytes: 8 << 20}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		var keys [][]byte
		for i := range 9 {
			key, err := tuple.Tuple{"lost", int64(i)}.Pack()
			must(t, err)
			keys = append(keys, key)
		}
		g.post(letters{1, host.Enqueue{Body: bytes.Repeat([]byte("x"), 1<<20), KeysIfUndelivered: keys}})
		g.post(letters{1, host.Enqueue{Body: []byte{3}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, fmt.Sprint(came), "[120 3]")
		g.must("a", func(_ *puppet, h host.Turn) error {
			n, err := h.KVCount(nil)
			errorIf(t, n != 4, "the body is under %d keys", n)
			return err
		})
	})
}

// One request reaches a message behind any number of messages without a form in the worker's codec.
func TestAMessageBehindManyWithoutAFormIsReceived(t *testing.T) {
	d := &puppetType{name: "p", outside: true, queues: []host.Queue{{Name: "mail", Backoff: []time.Duration{}}}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.post(letters{300, host.Enqueue{Body: []byte("\x63bad")}}, letters{1, host.Enqueue{Body: []byte("\x64good")}})
		var out host.QueueReceiveOutput
		g.mustVerb("a", host.QueueReceive, host.QueueReceiveInput{Queue: "mail", Limit: 1, WaitMS: 10_000}, &out)
		same(t, len(out.Messages), 1)
	})
}

// Messages that fail together leave their bodies under their keys as far as the turn has room.
func TestMessagesWithKeysFailTogether(t *testing.T) {
	d := &puppetType{name: "p", queues: []host.Queue{{Name: "mail", Backoff: []time.Duration{}}}, limits: host.Limits{WriteSetBytes: 1 << 20}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		body := append([]byte{0x5a, 0, 1, 0x86, 0xa0}, make([]byte, 100_000)...)
		for i := range 5 {
			var keys [][]byte
			for j := range 2 {
				key, err := tuple.Tuple{int64(i), int64(j)}.Pack()
				must(t, err)
				keys = append(keys, key)
			}
			g.post(letters{1, host.Enqueue{Body: body, KeysIfUndelivered: keys}})
		}
		in := host.QueueNackInput{Queue: "mail"}
		for range 5 {
			var out host.QueueReceiveOutput
			must(t, g.cbor("a", host.QueueReceive, host.QueueReceiveInput{Queue: "mail", Limit: 1}, &out))
			in.Receipts = append(in.Receipts, out.Messages[0].Receipt)
		}
		must(t, g.cbor("a", host.QueueNack, in, nil))
		var dead host.QueueListOutput
		must(t, g.cbor("a", host.QueueDeadList, host.QueueListInput{Queue: "mail"}, &dead))
		same(t, len(dead.Messages), 5)
	})
}
