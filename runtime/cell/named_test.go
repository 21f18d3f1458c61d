package cell_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cell"
)

// receive takes one message out of a queue of the cell and returns its body and receipt; "" if there is none.
func receive(t *testing.T, n host.Node, queue string) (body, receipt string) {
	t.Helper()
	var out struct {
		Messages []struct {
			Body    json.RawMessage
			Receipt string
		}
	}
	reply := call(t, n, host.QueueReceive, fmt.Sprintf(`{"queue":%q}`, queue))
	if err := json.Unmarshal([]byte(reply), &out); err != nil {
		t.Fatal(reply)
	}
	if len(out.Messages) == 0 {
		return "", ""
	}
	return string(out.Messages[0].Body), out.Messages[0].Receipt
}

func TestAtomicSendsWithItsMutations(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		out := call(t, h, "atomic", `{"mutations":[{"op":"sum","key":["n"],"value":1}],"enqueues":[
			{"queue":"a","body":{"n": 12345678901234567890}}, {"queue":"b","body":null,"delay_ms":60000}, {"queue":"a","body":"high","priority":1}]}`)
		if !strings.Contains(out, `"messages":[{"id":`) {
			t.Fatal(out)
		}
		// What fails after messages were put takes them along.
		for range 2 {
			call(t, h, "atomic", `{"enqueues":[{"queue":"a","body":"lost"},{"queue":"a","body":"`+strings.Repeat("x", 1<<20)+`"}]}`)
		}
		h.Crash()
		for _, want := range []string{`"high"`, `{"n":12345678901234567890}`, ``} {
			if body, _ := receive(t, h, "a"); body != want {
				t.Errorf("received %q, want %q", body, want)
			}
		}
		if body, _ := receive(t, h, "b"); body != "" {
			t.Errorf("a delayed message is received: %s", body)
		}
		time.Sleep(time.Minute)
		if body, _ := receive(t, h, "b"); body != "null" {
			t.Errorf("received %q", body)
		}
	}, cell.Definition())
}

func TestMessagesThatAreGivenUpLeaveTheirBodies(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		call(t, h, host.QueueSend, `{"queue":"q","messages":[{"body":{"a": [1.10]},"backoff_ms":[],"keys_if_undelivered":[["dead",1],["dead","x"]]}]}`)
		_, receipt := receive(t, h, "q")
		if out := call(t, h, host.QueueNack, fmt.Sprintf(`{"queue":"q","receipts":[%q]}`, receipt)); out != `{"settled":1}` {
			t.Fatal(out)
		}
		if f := get(t, h, `["dead","x"]`); string(f.Value) != `{"a":[1.10]}` {
			t.Errorf("the body is read as %s", f.Value)
		}
		// Entries that no method of the cell wrote are counted, listed and changed like others.
		if out := call(t, h, "count", `{"prefix":["dead"]}`); out != `{"entries":2}` {
			t.Error(out)
		}
		if out := call(t, h, "list", `{}`); strings.Count(out, `"value":{"a":[1.10]}`) != 2 {
			t.Error(out)
		}
		call(t, h, host.QueueSend, `{"queue":"q","messages":[{"body":[1],"backoff_ms":[],"keys_if_undelivered":[["list"]]}]}`)
		_, receipt = receive(t, h, "q")
		call(t, h, host.QueueNack, fmt.Sprintf(`{"queue":"q","receipts":[%q]}`, receipt))
		call(t, h, "atomic", `{"mutations":[{"op":"append","key":["list"],"value":[2]}]}`)
		if f := get(t, h, `["list"]`); string(f.Value) != `[1,2]` {
			t.Errorf("the list is %s", f.Value)
		}
	}, cell.Definition())
}

func TestSchedulesPutMessagesAndEmitTicks(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		out := call(t, h, host.ScheduleSet, `{"name":"both","every_ms":60000,"payload":{"queue":"jobs","body":{"n": 1},"event":true}}`)
		if !strings.Contains(out, `"payload":{"queue":"jobs","body":{"n":1},"event":true}`) {
			t.Fatal(out)
		}
		at := time.Now().Add(90 * time.Second).UTC().Format(time.RFC3339)
		if out := call(t, h, host.ScheduleSet, `{"name":"remind","instance":"7","at":"`+at+`","payload":{"event":true}}`); !strings.Contains(out, `"next"`) {
			t.Fatal(out)
		}
		h.Crash()
		time.Sleep(2*time.Minute + time.Second)
		for range 2 {
			if body, _ := receive(t, h, "jobs"); body != `{"n":1}` {
				t.Errorf("received %q", body)
			}
		}
		if body, _ := receive(t, h, "jobs"); body != "" {
			t.Errorf("received %q besides", body)
		}
		var ticks []string
		for _, e := range h.Events("cell", "c") {
			var tick cell.Tick
			if err := json.Unmarshal(e.Data, &tick); err != nil || e.Name != "tick" || tick.Due.IsZero() {
				t.Errorf("%s %s %v", e.Name, e.Data, err)
			}
			ticks = append(ticks, fmt.Sprintf("%s/%s %d %s", tick.Name, tick.Instance, tick.Run, tick.Payload))
		}
		if got, want := strings.Join(ticks, ", "), `both/ 1 {"n":1}, remind/7 1 , both/ 2 {"n":1}`; got != want {
			t.Errorf("ticks are %s, want %s", got, want)
		}
	}, cell.Definition())
}

func TestSchedulesThatCouldNotRunAreRefused(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for payload, want := range map[string]string{
			`{"queue":"jobs"}`:            "the body is missing",
			`{}`:                          "neither which queue",
			`{"event":true,"que":"jobs"}`: "an object with queue and body",
			`{"queue":"?","body":1}`:      "the queue is",
		} {
			out := call(t, h, host.ScheduleSet, `{"name":"s","every_ms":1000,"payload":`+payload+`}`)
			if !strings.Contains(out, "invalid_argument") || !strings.Contains(out, want) {
				t.Errorf("%s: %s, want %s", payload, out, want)
			}
		}
		if out := call(t, h, host.ScheduleList, `{}`); !strings.HasPrefix(out, "not_found") {
			t.Errorf("what was refused made a cell: %s", out)
		}
	}, cell.Definition())
}

func TestStreamsKeepDocumentsAsWritten(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		call(t, h, host.StreamAppend, `{"stream":"log","items":[1e400,{"b":1, "a":2},null]}`)
		h.Crash()
		out := call(t, h, host.StreamRead, `{"stream":"log","after":0}`)
		for _, value := range []string{`"value":1e400`, `"value":{"b":1,"a":2}`, `"value":null`} {
			if !strings.Contains(out, value) {
				t.Errorf("%s lacks %s", out, value)
			}
		}
		// In CBOR a document is a byte string that holds JSON, and nothing else gets in.
		for _, item := range []string{"\x01", "\x43abc", "\xa0", "\x41\xff"} {
			input := "\xa2\x66stream\x63log\x65items\x81" + item
			_, err := h.Call(t.Context(), &host.Request{
				Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: host.StreamAppend, Codec: host.CBOR, Input: []byte(input),
			})
			if host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("an item %x: %v", item, err)
			}
		}
	}, cell.Definition())
}

func TestGoCallersUseQueuesStreamsAndSchedules(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := t.Context(), cell.Type.Ref(h, "go")
		if _, err := cell.Queues.Named("jobs").Of(ref).Send(ctx, cell.Document(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		got, err := cell.Queues.Named("jobs").Of(ref).Receive(ctx, handle.ReceiveConfig{})
		if err != nil || len(got) != 1 || string(got[0].Body) != `{"a":1}` {
			t.Fatal(got, err)
		}
		if err := got[0].Ack(ctx, cell.Document(`{"done":true}`)); err != nil {
			t.Error(err)
		}
		if _, err := cell.Streams.Named("log").Of(ref).Append(ctx, cell.Document(`[1]`), nil); err != nil {
			t.Fatal(err)
		}
		page, err := cell.Streams.Named("log").Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})
		if err != nil || len(page.Items) != 2 || string(page.Items[0].Value) != `[1]` || page.Items[1].Value != nil {
			t.Error(page, err)
		}
		set, err := cell.Schedules.Named("s").Of(ref).Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{Event: true})
		if err != nil || !set.Payload.Event || set.Next.IsZero() {
			t.Error(set, err)
		}
		if _, err := cell.Schedules.Named("s").Of(ref).Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("a job that does nothing: %v", err)
		}
	}, cell.Definition())
}

func TestWorkersOfACellReply(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref, jobs := t.Context(), cell.Type.Ref(h, "a"), cell.Queues.Named("jobs")
		answer := make(chan string, 1)
		go func() {
			got, err := jobs.Of(ref).Ask(ctx, cell.Document(`{"add":[1,2]}`))
			answer <- fmt.Sprint(string(got), err)
		}()
		got, err := jobs.Of(ref).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if err := got[0].Ack(ctx, cell.Document(`3`)); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; got != "3<nil>" {
			t.Fatal(got)
		}
	}, cell.Definition())
}

func TestDocumentsNestOnlySoDeep(t *testing.T) {
	deep := func(n int) cell.Document {
		return cell.Document(strings.Repeat("[", n) + `"]\""` + strings.Repeat("]", n))
	}
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := t.Context(), cell.Type.Ref(h, "a")
		if _, err := cell.SetState.Call(ctx, ref, cell.StateInput{State: deep(cell.MaxDepth)}); err != nil {
			t.Fatal(err)
		}
		if _, err := cell.SetState.Call(ctx, ref, cell.StateInput{State: deep(cell.MaxDepth + 1)}); actor.CodeOf(err) != actor.InvalidArgument && actor.CodeOf(err) != actor.TooLarge {
			t.Fatal(err)
		}
	}, cell.Definition())
}
