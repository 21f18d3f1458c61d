package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestQueueStats(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{host.QueueStatsMethod: host.QueueStatsOutput{Queues: []host.QueueStats{
		{Queue: "jobs", Pending: 12, Delayed: 1, Dead: 2, Bytes: 4096, Sent: 1500, Done: 1485, Failed: 2, Oldest: &epoch},
		{Queue: "mail", Processing: 3, Sent: 3, NextDue: &epoch},
	}}})
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "stats", "cell/acme"), 0, ""+
		"QUEUE  PENDING  DELAYED  PROCESSING  DEAD  SIZE     SENT   DONE   FAILED  OLDEST                NEXT DUE\n"+
		"jobs   12       1        0           2     4.0 KiB  1,500  1,485  2       2026-11-21T12:00:00Z  -\n"+
		"mail   0        0        3           0     0 B      3      0      0       -                     2026-11-21T12:00:00Z\n", "")
	at(t, url, "queue", "stats", "cell/acme", "jobs")
	if got := n.asked(host.QueueStatsMethod); !slices.Equal(got, []string{`cell/acme {}`, `cell/acme {"queue":"jobs"}`}) {
		t.Errorf("%q", got)
	}
	if all := documents[host.QueueStats](t, at(t, url, "queue", "stats", "cell/acme", "--json").stdout); len(all) != 2 || all[0].Pending != 12 {
		t.Errorf("%+v", all)
	}
	r := at(t, url, "__complete", "queue", "peek", "cell/acme", "")
	if !strings.HasPrefix(r.stdout, "jobs\nmail\n") {
		t.Errorf("%+v", r)
	}
	n.respond(map[string]any{host.QueueStatsMethod: host.QueueStatsOutput{}})
	same(t, at(t, url, "queue", "stats", "cell/acme"), 0, "", "cell/acme has no queues that were ever used\n")
}

func TestQueueSend(t *testing.T) {
	n := newFakeNode()
	next := uint64(0)
	n.respond(map[string]any{
		host.QueueSend: func(r host.Request) (any, error) {
			var in host.QueueSendInput
			if err := json.Unmarshal(r.Input, &in); err != nil {
				return nil, err
			}
			var out host.QueueSendOutput
			for _, m := range in.Messages {
				next++
				out.Messages = append(out.Messages, host.Sent{ID: next, Duplicate: m.DedupID != ""})
			}
			return out, nil
		},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "send", "cell/acme", "jobs", `{"a":"<&>"}`, "2"), 0, "message 1\nmessage 2\n", "")
	same(t, at(t, url, "queue", "send", "cell/acme", "jobs", "3", "--dedup-id=x", "--delay=1m", "--ttl=1h", "--priority=-5"), 0, "message 3 (sent before)\n", "")
	same(t, at(t, url, "queue", "send", "cell/acme", "jobs", "4", "--json", "--idempotency-key=k"), 0, `{"id":4}`+"\n", "")
	if n.calls[2].IdempotencyKey != "k" || n.calls[0].Existing {
		t.Errorf("%+v", n.calls)
	}
	var in host.QueueSendInput
	if got := n.asked(host.QueueSend)[0]; json.Unmarshal(n.calls[0].Input, &in) != nil || in.Queue != "jobs" || len(in.Messages) != 2 {
		t.Error(got)
	}
	var body struct{ A string }
	if err := json.Unmarshal(in.Messages[0].Body, &body); err != nil || body.A != "<&>" {
		t.Errorf("%s", in.Messages[0].Body)
	}
	if want := `cell/acme {"queue":"jobs","messages":[{"body":3,"delay_ms":60000,"priority":-5,"dedup_id":"x","ttl_ms":3600000}]}`; n.asked(host.QueueSend)[1] != want {
		t.Error(n.asked(host.QueueSend)[1])
	}

	n.calls, next = nil, 0
	r := runCommand(t, strings.Repeat("1\n\n", 2500), nil, "queue", "send", "--url", url, "cell/acme", "jobs", "--lines")
	if r.status != 0 || strings.Count(r.stdout, "message ") != 2500 || len(n.calls) != 3 {
		t.Errorf("%d %s, %d requests", r.status, r.stderr, len(n.calls))
	}
	n.calls = nil
	big := `"` + strings.Repeat("x", 300<<10) + `"` + "\n"
	if r := runCommand(t, strings.Repeat(big, 3), nil, "queue", "send", "--url", url, "cell/acme", "jobs", "--lines"); r.status != 0 || len(n.calls) != 3 {
		t.Errorf("%d %s, %d requests", r.status, r.stderr, len(n.calls))
	}
	same(t, runCommand(t, strings.Repeat("1\n", 1001)+"{", nil, "queue", "send", "--url", url, "cell/acme", "jobs", "--lines", "--json"), 1,
		func() (ids string) {
			for i := range 1000 {
				ids += fmt.Sprintf(`{"id":%d}`+"\n", 2504+i)
			}
			return ids
		}(), `{"error":{"code":"local","message":"line 1002 of standard input is not JSON; 1,000 lines before it went out"}}`+"\n")
}

func TestQueueSendWaitsForTheReply(t *testing.T) {
	n := newFakeNode()
	asked := 0
	n.respond(map[string]any{
		host.QueueSend: host.QueueSendOutput{Messages: []host.Sent{{ID: 17}}},
		host.QueueResult: func(host.Request) (any, error) {
			asked++
			return host.QueueResultOutput{Done: asked > 1, Reply: host.Raw(`{"price":12}`)}, nil
		},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "send", "cell/acme", "price", "1", "--wait=30s"), 0, "{\n  \"price\": 12\n}\n", "")
	if got := n.asked(host.QueueResult); len(got) != 2 || !strings.Contains(got[0], `"wait_ms":20000`) {
		t.Errorf("%q", got)
	}
	if got := n.asked(host.QueueSend); !strings.Contains(got[0], `"want_reply":true`) {
		t.Errorf("%q", got)
	}
	same(t, at(t, url, "queue", "send", "cell/acme", "price", "1", "--wait=30s", "--json"), 0, `{"id":17,"reply":{"price":12}}`+"\n", "")
	n.respond(map[string]any{
		host.QueueSend:   host.QueueSendOutput{Messages: []host.Sent{{ID: 17}}},
		host.QueueResult: host.QueueResultOutput{Done: true, Error: host.Errorf(host.FailedPrecondition, "sold out")},
	})
	same(t, at(t, url, "queue", "send", "cell/acme", "price", "1", "--wait=30s"), 1, "",
		"error: failed_precondition: sold out\n  see docs/errors/failed_precondition.md\n")
	n.respond(map[string]any{
		host.QueueSend:   host.QueueSendOutput{Messages: []host.Sent{{ID: 17}}},
		host.QueueResult: host.QueueResultOutput{},
	})
	if r := at(t, url, "queue", "send", "cell/acme", "price", "1", "--wait=1ms"); r.status != 1 || !strings.Contains(r.stderr, "deadline_exceeded: message 17 has no reply after 1ms") {
		t.Errorf("%+v", r)
	}
}

func TestQueuePeekAndDeadLetters(t *testing.T) {
	n := newFakeNode()
	list := func(r host.Request) (any, error) {
		var in host.QueueListInput
		if err := json.Unmarshal(r.Input, &in); err != nil {
			return nil, err
		}
		var out host.QueueListOutput
		for id := in.After + 1; id <= 3; id++ {
			if len(out.Messages) == in.Limit {
				out.More = true
				break
			}
			out.Messages = append(out.Messages, host.ListedMessage{ID: id, Queue: in.Queue, Body: host.Raw(`{"n": ` + fmt.Sprint(id) + `}`), State: "delayed",
				Attempts: 2, Sent: epoch, Due: &epoch, Died: &epoch, Error: "exit status 1:\nno"})
		}
		return out, nil
	}
	n.respond(map[string]any{host.QueuePeek: list, host.QueueDeadList: list, host.QueueDeadRequeue: host.CountOutput{Count: 1}, host.QueueDeadDelete: host.CountOutput{Count: 3}, host.QueuePurge: host.CountOutput{Count: 1000}, host.QueueDelete: host.CountOutput{Count: 1}})
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "peek", "cell/acme", "jobs", "--limit=2"), 0, ""+
		"ID  STATE    ATTEMPTS  PRIORITY  SENT                  DUE                   ERROR               BODY\n"+
		"1   delayed  2         0         2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  exit status 1:\\nno  {\"n\":1}\n"+
		"2   delayed  2         0         2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  exit status 1:\\nno  {\"n\":2}\n",
		"there are more: --after 2 or --limit 0 lists them\n")
	same(t, at(t, url, "queue", "dead", "list", "cell/acme", "jobs", "--after=2"), 0, ""+
		"ID  ATTEMPTS  SENT                  DIED                  ERROR               BODY\n"+
		"3   2         2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  exit status 1:\\nno  {\"n\":3}\n", "")
	same(t, at(t, url, "queue", "peek", "cell/acme", "jobs", "--after=3"), 0, "", "no messages\n")
	if all := documents[host.ListedMessage](t, at(t, url, "queue", "peek", "cell/acme", "jobs", "--limit=0", "--json").stdout); len(all) != 3 || string(all[2].Body) != `{"n":3}` {
		t.Errorf("%+v", all)
	}
	n.calls = nil
	at(t, url, "queue", "peek", "cell/acme", "jobs", "17", "18")
	if got := n.asked(host.QueuePeek)[0]; got != `cell/acme {"queue":"jobs","ids":[17,18],"limit":100}` {
		t.Error(got)
	}
	same(t, at(t, url, "queue", "dead", "requeue", "cell/acme", "jobs", "17"), 0, "requeued 1 message\n", "")
	same(t, at(t, url, "queue", "dead", "delete", "cell/acme", "jobs", "--all", "--yes"), 0, "deleted 3 messages\n", "")
	same(t, at(t, url, "queue", "purge", "cell/acme", "jobs", "-y", "--json"), 0, `{"count":1000}`+"\n", "")
	same(t, at(t, url, "queue", "delete", "cell/acme", "jobs", "17"), 0, "deleted 1 message\n", "")
	if got := slices.Concat(n.asked(host.QueueDeadRequeue), n.asked(host.QueueDeadDelete), n.asked(host.QueueDelete)); !slices.Equal(got, []string{
		`cell/acme {"queue":"jobs","ids":[17]}`, `cell/acme {"queue":"jobs","all":true}`, `cell/acme {"queue":"jobs","ids":[17]}`}) {
		t.Errorf("%q", got)
	}
}

func TestQueueReceiveAndSettle(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{
		host.QueueReceive: host.QueueReceiveOutput{Messages: []host.ReceivedMessage{{ID: 17, Queue: "mail", Body: host.Raw(`{"to": "ada"}`), Attempt: 1,
			Sent: epoch, Receipt: "17-a", LockedUntil: epoch.Add(time.Minute)}}},
		host.QueueAck:  host.QueueSettleOutput{Settled: 1},
		host.QueueNack: host.QueueSettleOutput{Settled: 1, Lost: []string{"18-b"}},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "receive", "cell/acme", "mail", "--lock=1m", "--wait=90s", "--limit=5"), 0, ""+
		"ID  ATTEMPT  SENT                  LOCKED UNTIL          RECEIPT  BODY\n"+
		"17  1        2026-11-21T12:00:00Z  2026-11-21T12:01:00Z  17-a     {\"to\":\"ada\"}\n", "")
	if got := n.asked(host.QueueReceive)[0]; got != `cell/acme {"queue":"mail","limit":5,"lock_ms":60000,"wait_ms":20000}` {
		t.Error(got)
	}
	if all := documents[host.ReceivedMessage](t, at(t, url, "queue", "receive", "cell/acme", "mail", "--json").stdout); len(all) != 1 || all[0].Receipt != "17-a" {
		t.Errorf("%+v", all)
	}
	same(t, at(t, url, "queue", "ack", "cell/acme", "mail", "17-a"), 0, "acknowledged 1 message\n", "")
	at(t, url, "queue", "ack", "cell/acme", "mail", "17-a", "--reply", `{"ok":true}`)
	same(t, at(t, url, "queue", "nack", "cell/acme", "mail", "17-a", "18-b", "--delay=0s", "--error=full", "--dead"), 1, "gave back 1 message\n",
		"error: 1 receipt no longer valid, so nothing was done about them: [\"18-b\"]\n")
	same(t, at(t, url, "queue", "nack", "cell/acme", "mail", "17-a", "--json"), 1, `{"settled":1,"lost":["18-b"]}`+"\n",
		`{"error":{"code":"local","message":"1 receipt no longer valid, so nothing was done about them: [\"18-b\"]"}}`+"\n")
	if got := append(n.asked(host.QueueAck), n.asked(host.QueueNack)...); !slices.Equal(got, []string{
		`cell/acme {"queue":"mail","receipts":["17-a"]}`,
		`cell/acme {"queue":"mail","receipts":["17-a"],"reply":{"ok":true}}`,
		`cell/acme {"queue":"mail","receipts":["17-a","18-b"],"delay_ms":0,"error":"full","dead":true}`,
		`cell/acme {"queue":"mail","receipts":["17-a"]}`}) {
		t.Errorf("%q", got)
	}
	n.respond(map[string]any{host.QueueReceive: host.QueueReceiveOutput{}})
	same(t, at(t, url, "queue", "receive", "cell/acme", "mail"), 0, "", "no messages\n")
}
