package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/many"
)

// respond makes a fake node answer the methods that every actor has: with JSON by method, or an error.
func (n *fakeNode) respond(answers map[string]any) {
	n.answer = func(r host.Request) (host.Reply, error) {
		switch a := answers[r.Method].(type) {
		case nil:
			return host.Reply{}, nil
		case error:
			return host.Reply{}, a
		case func(host.Request) (any, error):
			out, err := a(r)
			if err != nil {
				return host.Reply{}, err
			}
			return host.Reply{Output: mustJSON(out)}, nil
		default:
			return host.Reply{Output: mustJSON(a)}, nil
		}
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// asked returns the calls of a method: their addresses and inputs.
func (n *fakeNode) asked(method string) (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.calls {
		if r.Method == method {
			all = append(all, strings.TrimSpace(formatAddress(r.Type, r.Key)+" "+string(r.Input)))
		}
	}
	return all
}

func TestVerbsOnOneActor(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{
		host.ActorPause:  host.Pause{Reason: "ticket 7", Since: epoch},
		host.ActorResume: host.CountOutput{Count: 1}, host.ActorRetry: host.CountOutput{},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "pause", "cell/acme", "--reason", "ticket 7"), 0, "paused cell/acme\n", "")
	if got := n.asked(host.ActorPause); !slices.Equal(got, []string{`cell/acme {"reason":"ticket 7"}`}) {
		t.Errorf("%q", got)
	}
	same(t, at(t, url, "resume", "cell/acme"), 0, "resumed cell/acme\n", "")
	same(t, at(t, url, "wake", "cell/acme"), 0, "woke cell/acme\n", "")
	same(t, at(t, url, "sleep", "cell/acme"), 0, "put to sleep cell/acme\n", "")
	same(t, at(t, url, "retry", "cell/acme"), 0, "cell/acme had not failed\n", "")
	same(t, at(t, url, "--json", "retry", "cell/acme"), 0, `{"retried":false,"type":"cell","key":["acme"]}`+"\n", "")
	same(t, at(t, url, "--json", "resume", "cell/acme/eu"), 0, `{"resumed":true,"type":"cell","key":["acme","eu"]}`+"\n", "")
	for _, r := range n.calls {
		if !r.Existing {
			t.Errorf("%s could create the actor", r.Method)
		}
	}
	same(t, at(t, url, "wake", "cell/none"), 1, "", "error: not_found: there is no actor cell/none\n  see docs/errors/not_found.md\n")
}

func TestVerbsOnManyActors(t *testing.T) {
	n := newFakeNode()
	n.actors[2].State = host.Paused
	n.respond(map[string]any{host.ActorResume: host.CountOutput{Count: 1}, host.ActorPause: func(r host.Request) (any, error) {
		if r.Type == "room" || slices.Equal(r.Key, []string{"zoo"}) {
			return nil, host.Errorf(host.ActorFailed, "it does not wake")
		}
		return host.Pause{}, nil
	}})
	url := n.serve(t, "")
	for _, tc := range []struct {
		args   []string
		method string
		want   []string
		status int
		stdout string
	}{
		{[]string{"resume", "--state=paused"}, host.ActorResume, []string{"cell/acme/us"}, 0, "resumed 1 of 1 actor\n"},
		{[]string{"wake", "--type=cell"}, host.ActorWake, []string{"cell/a%2Fb/~", "cell/acme", "cell/acme/eu", "cell/acme/us", "cell/zoo"}, 0, "woke 5 of 5 actors\n"},
		{[]string{"wake", "--type=cell", "--prefix=acme/"}, host.ActorWake, []string{"cell/acme", "cell/acme/eu", "cell/acme/us"}, 0, "woke 3 of 3 actors\n"},
		{[]string{"wake", "--type=cell", "--prefix=zoo", "--prefix=acme/us", "--prefix=acme", "--prefix=zoo"}, host.ActorWake,
			[]string{"cell/acme", "cell/acme/eu", "cell/acme/us", "cell/zoo"}, 0, "woke 4 of 4 actors\n"},
		{[]string{"sleep", "--type=cell", "--prefix=acme", "--state=awake"}, host.ActorSleep, []string{"cell/acme/eu"}, 0, "put to sleep 1 of 1 actor\n"},
		{[]string{"retry", "--state=failed"}, host.ActorRetry, []string{"cell/zoo"}, 0, "retried 1 of 1 actor\n"},
		{[]string{"wake", "cell/acme", "room/lobby"}, host.ActorWake, []string{"cell/acme", "room/lobby"}, 0, "woke 2 of 2 actors\n"},
		{[]string{"wake", "--type=cell", "--prefix=nobody"}, host.ActorWake, nil, 0, ""},
		{[]string{"pause", "cell/acme", "room/lobby", "cell/zoo"}, host.ActorPause, []string{"cell/acme {}", "cell/zoo {}", "room/lobby {}"}, 1, "paused 1 of 3 actors\n"},
	} {
		n.calls = nil
		r := at(t, url, append(tc.args, "--yes", "--concurrency=2")...)
		got := n.asked(tc.method)
		slices.Sort(got)
		if r.status != tc.status || r.stdout != tc.stdout || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %+v, called %q", tc.args, r, got)
		}
		if tc.status == 1 && (!strings.Contains(r.stderr, "cell/zoo: actor_failed: it does not wake\n") || !strings.Contains(r.stderr, "error: 2 of 3 actors failed\n")) {
			t.Errorf("%q: %s", tc.args, r.stderr)
		}
		n.calls = nil
		dry := at(t, url, append(tc.args, "--dry-run")...)
		if dry.status != 0 || len(n.calls) > 0 || strings.Count(dry.stdout, "\n") != len(tc.want)+min(1, len(tc.want)) {
			t.Errorf("%q: %+v", tc.args, dry)
		}
	}
	r := at(t, url, "pause", "cell/acme", "cell/zoo", "--yes", "--json", "--concurrency=1")
	if want := `{"paused":true,"type":"cell","key":["acme"]}` + "\n" +
		`{"paused":false,"type":"cell","key":["zoo"],"error":{"code":"actor_failed","message":"it does not wake"}}` + "\n"; r.stdout != want || r.status != 1 {
		t.Errorf("%+v", r)
	}
	if all := documents[host.Status](t, at(t, url, "pause", "--state=failed", "--dry-run", "--json").stdout); len(all) != 1 || all[0].Failure == nil {
		t.Errorf("%+v", all)
	}
	same(t, at(t, url, "destroy", "--type=room", "--dry-run"), 0, ""+
		"ACTOR       STATE   VERSION  KEYS  SIZE  UPDATED\n"+
		"room/lobby  asleep  0        0     0 B   2026-11-21T12:00:00Z\n", "1 actor; nothing is done, because of --dry-run\n")
	same(t, at(t, url, "destroy", "--type=cell", "--prefix=acme", "--yes"), 0, "destroyed 3 of 3 actors\n", "")
	if len(n.actors) != 3 {
		t.Errorf("%d actors left", len(n.actors))
	}
	same(t, at(t, url, "destroy", "--type=rom", "--yes"), 0, "", "no such actors; did you mean the type room?\n")
}

func TestManyFailuresAreCounted(t *testing.T) {
	n := newFakeNode()
	n.actors = nil
	for i := range 2500 {
		n.actors = append(n.actors, host.Status{Type: "cell", Key: []string{fmt.Sprint(i)}})
	}
	n.respond(map[string]any{host.ActorWake: host.Errorf(host.Crashed, "it fell\nover")})
	url := n.serve(t, "")
	r := at(t, url, "wake", "--type=cell", "-y", "--concurrency=64")
	if r.status != 1 || strings.Count(r.stderr, `it fell\nover`) != many.Shown || !strings.Contains(r.stderr, "2,500 of 2,500 actors failed") {
		t.Errorf("%+v", r)
	}
}

func TestWhyPrintsOneSentenceAndTheCommandThatHelps(t *testing.T) {
	n := newFakeNode()
	until := epoch.Add(time.Hour)
	n.respond(map[string]any{host.ActorWhy: host.Explanation{
		Why: host.WhyQueue, Text: "cell/acme retries a message that fails.", Since: &epoch, Until: &until, Remedy: "skip",
		Details: map[string]string{"queue": "jobs", "message": "17"}, Status: n.actors[0],
	}})
	url := n.serve(t, "")
	same(t, at(t, url, "why", "cell/acme"), 0, ""+
		"cell/acme retries a message that fails.\n"+
		"since    2026-11-21T12:00:00Z\n"+
		"until    2026-11-21T13:00:00Z\n"+
		"remedy   cairn skip cell/acme --queue jobs\n"+
		"message  17\n"+
		"queue    jobs\n", "")
	all := documents[host.Explanation](t, at(t, url, "why", "cell/acme", "--json").stdout)
	if len(all) != 1 || all[0].Why != host.WhyQueue || all[0].Status.ID == "" {
		t.Errorf("%+v", all)
	}
	for _, tc := range []struct {
		remedy, detail, value, want string
	}{
		{"resume", "", "", "cairn resume cell/acme"}, {"retry", "", "", "cairn retry cell/acme"},
		{"skip", "target", "ledger/main", "cairn skip cell/acme --to ledger/main"}, {"skip", "", "", "skip"}, {"wait", "", "", "wait"},
	} {
		if got := remedy("cell/acme", &host.Explanation{Remedy: tc.remedy, Details: map[string]string{tc.detail: tc.value}}); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestSkipNamesTheMessage(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{host.QueueSkip: host.CountOutput{Count: 1}, host.SendSkip: host.CountOutput{}})
	url := n.serve(t, "")
	same(t, at(t, url, "skip", "cell/acme", "--queue=jobs"), 0, "skipped 1 message: queue jobs of cell/acme\n", "")
	same(t, at(t, url, "skip", "cell/acme", "--queue=jobs", "--json"), 0, `{"skipped":1}`+"\n", "")
	same(t, at(t, url, "skip", "cell/acme", "--to=room"), 1, "", "error: messages to room of cell/acme: there is nothing to skip\n")
	if got := append(n.asked(host.QueueSkip), n.asked(host.SendSkip)...); !slices.Equal(got, []string{
		`cell/acme {"queue":"jobs"}`, `cell/acme {"queue":"jobs"}`, `cell/acme {"type":"room","key":[]}`}) {
		t.Errorf("%q", got)
	}
}

func TestStatusShowsAPauseAndWhoIsThere(t *testing.T) {
	n := newFakeNode()
	n.actors[0].State, n.actors[0].Pause = host.Paused, &host.Pause{Reason: "ticket\t7", Since: epoch}
	n.actors[0].Connections, n.actors[0].Tasks = 1200, 1
	url := n.serve(t, "")
	r := at(t, url, "status", "cell/acme")
	for _, want := range []string{
		"state           paused\npaused since    2026-11-21T12:00:00Z\npaused because  ticket\\t7\n", "connections     1,200\ntasks           1\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s", r.stdout)
		}
	}
	if r := at(t, url, "actors", "cell", "--prefix=acme"); !strings.Contains(r.stdout, "cell/acme     paused") {
		t.Errorf("%s", r.stdout)
	}
}
