package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// A workStream is a stream on a fake node.
type workStream struct {
	kept   uint64 // items up to this one are gone
	items  []string
	closed bool
	fail   []error
}

func newWorkStream(n *fakeNode, items int) *workStream {
	s := &workStream{}
	for i := range items {
		s.items = append(s.items, fmt.Sprintf(`{"n":%d}`, i+1))
	}
	n.respond(map[string]any{host.StreamRead: s.read, host.StreamAppend: s.append, host.StreamClose: s.close, host.StreamList: s.list})
	return s
}

func (s *workStream) read(r host.Request) (any, error) {
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = s.fail[1:]
		if err != nil {
			return nil, err
		}
	}
	var in host.StreamReadInput
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return nil, err
	}
	out := host.StreamReadOutput{Items: []host.ReadStreamItem{}, Next: in.After}
	if in.After < s.kept {
		out.Missed, out.Next = s.kept-in.After, s.kept
	}
	for out.Next < uint64(len(s.items)) && len(out.Items) < min(in.Limit, 3) {
		out.Next++
		out.Items = append(out.Items, host.ReadStreamItem{Sequence: out.Next, Time: epoch, Value: host.Raw(s.items[out.Next-1])})
	}
	out.Closed = s.closed && out.Next >= uint64(len(s.items))
	return out, nil
}

func (s *workStream) append(r host.Request) (any, error) {
	var in host.StreamAppendInput
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return nil, err
	}
	for _, item := range in.Items {
		s.items = append(s.items, string(item))
	}
	s.closed = in.Close
	return host.StreamAppendOutput{Last: uint64(len(s.items))}, nil
}

func (s *workStream) info() host.StreamInfo {
	return host.StreamInfo{Stream: "log", First: s.kept + 1, Last: uint64(len(s.items)), Bytes: 2048, Closed: s.closed, Updated: epoch}
}

func (s *workStream) close(host.Request) (any, error) {
	s.closed = true
	return s.info(), nil
}

func (s *workStream) list(host.Request) (any, error) {
	return host.StreamListOutput{Streams: []host.StreamInfo{s.info()}}, nil
}

func TestStreamAppend(t *testing.T) {
	n := newFakeNode()
	s := newWorkStream(n, 0)
	url := n.serve(t, "")
	same(t, at(t, url, "stream", "append", "cell/acme", "log", `{"text":"<hello>"}`, "2"), 0, "appended up to 2\n", "")
	same(t, at(t, url, "stream", "append", "cell/acme", "log", "3", "--close", "--json", "--idempotency-key=k"), 0, `{"last":3}`+"\n", "")
	if !s.closed || n.calls[1].IdempotencyKey != "k" {
		t.Errorf("%+v", n.calls[1])
	}
	s.items, n.calls = nil, nil
	r := runCommand(t, strings.Repeat("1\n", 2001), nil, "stream", "append", "--url", url, "cell/acme", "log", "--lines", "--close")
	same(t, r, 0, "appended up to 1000\nappended up to 2000\nappended up to 2001\nappended up to 2001, and closed\n", "")
	if len(s.items) != 2001 || len(n.calls) != 4 {
		t.Errorf("%d items in %d requests", len(s.items), len(n.calls))
	}
	s.closed = false
	same(t, at(t, url, "stream", "append", "cell/acme", "log", "--close"), 0, "appended up to 2001, and closed\n", "")
}

func TestStreamRead(t *testing.T) {
	n := newFakeNode()
	s := newWorkStream(n, 8)
	s.kept = 2
	url := n.serve(t, "")
	line := func(i int) string { return fmt.Sprintf("%6d  2026-11-21T12:00:00Z  {\"n\":%d}\n", i, i) }
	same(t, at(t, url, "stream", "read", "cell/acme", "log"), 0, "— 2 items no longer kept —\n"+line(3)+line(4)+line(5)+line(6)+line(7)+line(8), "")
	same(t, at(t, url, "stream", "read", "cell/acme", "log", "--after=4", "--limit=2"), 0, line(5)+line(6), "")
	same(t, at(t, url, "stream", "read", "cell/acme", "log", "--after=1", "--limit=1", "--json"), 0,
		`{"missed":1}`+"\n"+`{"sequence":3,"time":"2026-11-21T12:00:00Z","value":{"n":3}}`+"\n", "")
	same(t, at(t, url, "stream", "list", "cell/acme"), 0, ""+
		"STREAM  FIRST  LAST  SIZE     STATE  UPDATED\n"+
		"log     3      8     2.0 KiB  open   2026-11-21T12:00:00Z\n", "")
	same(t, at(t, url, "stream", "close", "cell/acme", "log", "--json"), 0,
		`{"stream":"log","first":3,"last":8,"bytes":2048,"closed":true,"updated":"2026-11-21T12:00:00Z"}`+"\n", "")
}

func TestStreamFollowSurvivesOutagesAndEndsWithTheStream(t *testing.T) {
	n := newFakeNode()
	s := newWorkStream(n, 8)
	s.closed = true
	away := host.Errorf(host.Unavailable, "shutting down").Retry()
	s.fail = []error{nil, away, nil, away, away}
	url := n.serve(t, "")
	r := at(t, url, "stream", "follow", "cell/acme", "log", "--attempts=1", "--json")
	var got []string
	for _, i := range documents[host.ReadStreamItem](t, r.stdout) {
		got = append(got, string(i.Value))
	}
	if r.status != 0 || r.stderr != "" || !slices.Equal(got, s.items) {
		t.Errorf("%+v", r)
	}
	if reads := n.asked(host.StreamRead); !strings.Contains(reads[0], `"wait_ms":20000`) {
		t.Error(reads)
	}
	same(t, at(t, url, "stream", "follow", "cell/acme", "log", "--after=6"), 0, ""+
		"     7  2026-11-21T12:00:00Z  {\"n\":7}\n     8  2026-11-21T12:00:00Z  {\"n\":8}\n", "stream log is closed\n")
	same(t, at(t, url, "stream", "follow", "cell/acme", "log", "--count=1"), 0, "     1  2026-11-21T12:00:00Z  {\"n\":1}\n", "")
	same(t, at(t, url, "stream", "follow", "cell/acme", "log", "--new"), 0, "", "stream log is closed\n")
	s.fail = []error{nil, host.Errorf(host.Destroyed, "gone")}
	if r := at(t, url, "stream", "follow", "cell/acme", "log"); r.status != 0 || r.stderr != "cell/acme was destroyed\n" {
		t.Errorf("%+v", r)
	}
	// Before anything was read, and if it will not pass, an error is the answer.
	s.fail = []error{away}
	if r := at(t, url, "stream", "follow", "cell/acme", "log", "--attempts=1"); r.status != 1 {
		t.Errorf("%+v", r)
	}
	s.fail = []error{nil, host.Errorf(host.PermissionDenied, "no more")}
	if r := at(t, url, "stream", "follow", "cell/acme", "log"); r.status != 1 || !strings.Contains(r.stderr, "no more") {
		t.Errorf("%+v", r)
	}
}

func TestStreamFollowEndsQuietlyWhenInterrupted(t *testing.T) {
	n := newFakeNode()
	newWorkStream(n, 3)
	n.wait = func(ctx context.Context, r host.Request) {
		if r.Method == host.StreamRead && strings.Contains(string(r.Input), `"after":3`) {
			<-ctx.Done()
		}
	}
	url := n.serve(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr := &interrupter{cancel: cancel}, new(strings.Builder)
	c := &cli{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, getenv: func(string) string { return "" }}
	if status := c.run(ctx, []string{"stream", "follow", "cell/acme", "log", "--url", url}); status != 0 || stderr.String() != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
}
