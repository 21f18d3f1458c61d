package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/keyspace"
)

// A message to a queue carries the span that has sent it: its handler's turns, those of its retries and dead letters too, are of that trace
// and link to it, and workers get its traceparent.
func TestMessagesInQueuesKeepTheirTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 1
		var within []string
		g := traced(t, &puppetType{name: "p", outside: true, queues: []host.Queue{{Name: "jobs", Handler: "puppet.job", Backoff: []time.Duration{time.Second}}, {Name: "mail"}},
			message: func(_ *puppet, h host.Turn) error {
				within = append(within, h.Traceparent())
				if failures--; failures >= 0 {
					return errors.New("secret")
				}
				return nil
			}})
		send := func(traceparent, queue string) {
			t.Helper()
			if err := g.doFrom("a", traceparent, func(_ *puppet, h host.Turn) error {
				_, err := h.Enqueue(queue, []host.Enqueue{{Body: []byte{1}}, {Body: []byte{1}, Delay: time.Minute}})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		send(sampledFrom, "jobs")
		time.Sleep(2 * time.Second)
		g.restart() // the row has the span, and not the memory
		time.Sleep(2 * time.Minute)
		spans := g.spans("a", trace.ReadInput{TraceID: parentTrace})
		sent := named(t, spans, "send p.jobs")
		if sent.Kind != "producer" || sent.ParentID != named(t, spans, "turn do").SpanID {
			t.Errorf("the send is %+v", sent)
		}
		var turns []trace.Span
		for _, s := range spans {
			if s.Attributes["code.function.name"] == "puppet.job" {
				turns = append(turns, s)
			}
		}
		if len(turns) != 3 || len(within) != 3 || turns[0].Status != "error" || turns[1].Status != "" {
			t.Fatalf("the deliveries are %+v of %q", turns, spanNames(spans))
		}
		for i, s := range turns {
			if s.ParentID != sent.SpanID || !s.Remote || s.Kind != "consumer" || len(s.Links) != 1 || s.Links[0].SpanID != sent.SpanID || s.Links[0].TraceID != parentTrace {
				t.Errorf("delivery %d is %+v, sent by %+v", i, s, sent)
			}
			if want := "00-" + parentTrace + "-" + s.SpanID + "-01"; within[i] != want {
				t.Errorf("the handler sees %q, want %q", within[i], want)
			}
		}

		send(sampledFrom, "mail")
		var out host.QueueReceiveOutput
		g.mustVerb("a", host.QueueReceive, host.QueueReceiveInput{Queue: "mail"}, &out)
		mail := named(t, g.spans("a", trace.ReadInput{TraceID: parentTrace}), "send p.mail")
		if want := "00-" + parentTrace + "-" + mail.SpanID + "-01"; len(out.Messages) != 1 || out.Messages[0].Traceparent != want {
			t.Errorf("a worker receives %+v, want %q", out.Messages, want)
		}
	})
}

// Messages without a trace that are handled one after the other are each of a trace of their own, and their commit is of one of these.
func TestMessagesWithoutATraceShareNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 3
		var within []host.Span
		g := traced(t, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs", Handler: "puppet.job", Backoff: []time.Duration{time.Second}}},
			message: func(_ *puppet, h host.Turn) error {
				if within = append(within, host.ParseSpan(h.Traceparent())); len(within) == 2 {
					return errors.New("secret") // its retry is of another trace
				}
				return nil
			}})
		if err := g.doFrom("a", unsampledFrom, func(_ *puppet, h host.Turn) error {
			_, err := h.Enqueue("jobs", slices.Repeat([]host.Enqueue{{Body: []byte{1}}}, messages))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := map[[16]byte]bool{}
		for _, s := range within {
			seen[s.Trace] = true
		}
		if len(within) != messages+1 || len(seen) != len(within) {
			t.Errorf("%d handlers see %d traces: %v", len(within), len(seen), within)
		}
		commits := 0
		for _, s := range g.spans("a", trace.ReadInput{}) {
			if s.Name == "commit" && s.TraceID == hex.EncodeToString(within[0].Trace[:]) {
				commits++
			}
		}
		if commits != 1 {
			t.Errorf("the trace of the first message has %d commits", commits)
		}
	})
}

// Nothing is stored of a trace that is not recorded, and a queue's turns do not join the trace of the message before.
func TestMessagesOfUntracedCallsHaveNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var within []host.Span
		g := traced(t, &puppetType{name: "p", outside: true, queues: []host.Queue{{Name: "jobs", Handler: "puppet.job"}, {Name: "mail"}},
			message: func(_ *puppet, h host.Turn) error {
				within = append(within, host.ParseSpan(h.Traceparent()))
				return nil
			}})
		send := func(traceparent, queue string, body byte) {
			t.Helper()
			if err := g.doFrom("a", traceparent, func(_ *puppet, h host.Turn) error {
				_, err := h.Enqueue(queue, []host.Enqueue{{Body: []byte{body}}})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		send(unsampledFrom, "mail", 1)
		send(sampledFrom, "mail", 2)
		var rows [][]byte
		page, err := g.Inspect(t.Context(), pAddr("a"), host.InspectQuery{ValueBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Keys {
			if _, err := keyspace.QueueMessage.Parse(page.Keys[i].Key); err == nil {
				rows = append(rows, page.Keys[i].Value)
			}
		}
		id := host.ParseSpan(sampledFrom).Trace
		if len(rows) != 2 || len(rows[1]) != len(rows[0])+25 || bytes.Contains(rows[0], id[:]) || !bytes.Contains(rows[1], id[:]) {
			t.Errorf("the rows are %x", rows)
		}
		send(sampledFrom, "jobs", 1)
		send(unsampledFrom, "jobs", 2)
		synctest.Wait()
		if len(within) != 2 || within[0].Trace != id || within[1].Trace == id {
			t.Errorf("the handlers see %v", within)
		}
	})
}
