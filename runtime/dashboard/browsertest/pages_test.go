package browsertest

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestPages opens each page on the flights example and on a cell with hostile values, at the width of a screen and of a phone. No
// page wakes the actor that it shows, makes markup of a value, says anything on the console, or scrolls sideways on a phone.
func TestPages(t *testing.T) {
	s := newSite(t, "")
	s.fly(80)
	s.store("cell/acme")
	evil := "cell/" + url.PathEscape(hostile)
	s.call(evil, "kv.commit", object{"mutations": []any{object{"op": "put", "key": []any{"a"}, "value": 1}}})
	s.call(evil, "actor.pause", object{"reason": hostile})
	s.call("claim/100000", "workflow.pause", object{"reason": hostile})
	s.sleep("cell/acme")
	b := s.open("")
	b.shows("No token.")
	b.until("document.querySelector('.tiles')")
	t.Logf("the first load has %d bytes; the overview was there after %d ms", js[int](b, "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter((e) => e.name.includes('/dashboard/')).reduce((n, e) => n + e.transferSize, 0)"),
		js[int](b, "Math.round(performance.getEntriesByName('overview')[0]?.startTime ?? -1)"))
	const acme, fragment = "/actor/cell/acme/-/", "&lt;"
	for _, page := range []struct{ name, at, want string }{
		{"overview", "/overview", "persisted"}, // a kind of keys
		{"actors", "/actors", "airport/"},
		{"actors-of-a-type", "/actors?type=cell", "onerror"},
		{"actors-found", "/actors?type=cell&sort=-size&where=" + url.QueryEscape("size>1KiB state!=failed"), "acme"},
		{"actors-of-all-types-in-order", "/actors?sort=-size", "airport/"},
		{"actor", acme, "Activations that wrote"},
		{"state-tab", "/actor/airport/ORD/-/state", "Histogram"},
		{"usage", "/actor/airport/ORD/-/usage", "Time in handlers"},
		{"audit-of-an-actor", acme + "audit", "queue.skip"},
		{"state", "/actor/airport/ORD/-/", "Histogram"},
		{"paused", "/actor/" + evil + "/-/", "onerror"},
		{"queues", acme + "queues", "onerror"},
		{"schedules", acme + "timers", "nightly"},
		{"messages", acme + "messages", "No message was given up."},
		{"connections", acme + "connections", "No client is connected."},
		{"streams", acme + "streams", "onerror"},
		{"events", acme + "events", "live"},
		{"no-run", acme + "run", "It has no workflow run."},
		{"store", acme + "store", "Search indexes"},
		{"entries", acme + "store/entries?key=" + url.QueryEscape(`["exact"]`), "9007199254740993"},
		{"entry", acme + "store/entries?prefix=note&key=" + url.QueryEscape(`["note",1]`), "onerror"},
		{"store-queue", acme + "store/queue", "Dead letters"},
		{"search", acme + "store/search?find=apple", "onerror"},
		{"watch", acme + "store/watch", "live"},
		{"atomic", acme + "store/atomic", "Mutations"},
		{"store-metrics", acme + "store/metrics", "Messages pending"},
		{"sql", acme + "sql", "read-only"},
		{"keys", acme + "keys", "kv-scope"},
		{"keys-of-a-kind", acme + "keys?kind=04", "kv("},
		{"traces-of-an-actor", "/actor/airport/ORD/-/traces", "airport.depart"},
		{"workflows", "/runs", "claim/100000"},
		{"run", "/actor/claim/100000/-/run", "a message in documents"},
		{"traces", "/traces?type=airport", "airport"},
		{"audit", "/audit?verb=actor.pause", "onerror"},
		{"feed", "/feed", "Live feed"},
	} {
		t.Run(page.name, func(t *testing.T) {
			b.t = t
			b.visit(page.at)
			b.shows(page.want)
			b.harmless()
			b.screenshot(page.name)
			b.size(390, 844)
			if wide := js[int](b, "document.documentElement.scrollWidth"); wide > 390 {
				t.Errorf("on a phone the page is %d pixels wide", wide)
			}
			if slices.Contains([]string{"overview", "actor", "entries", "run", "traces", "audit"}, page.name) {
				b.screenshot("phone-" + page.name)
			}
			b.size(1360, 900)
			if strings.Contains(js[string](b, "document.body.innerText"), fragment) {
				t.Error("text is escaped twice")
			}
		})
	}
	b.t = t
	if state := s.state("cell/acme"); state != "asleep" {
		t.Errorf("looking at an actor made it %s", state)
	}
	b.calm()
}

// TestATraceFollowsItsActors: spans come to a waterfall as they end. Its page is hidden then, so it reads nothing.
func TestATraceFollowsItsActors(t *testing.T) {
	s := newSite(t, "")
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": 1})
	const id = "0af7651916cd43dd8448eb211c80319c"
	b := s.open("#/trace/" + id + "?actor=cell/acme")
	b.until("document.querySelector('.live .badge.good') && document.querySelector('p.empty')")
	b.hide()
	js[bool](b, `(fetch('../actors/cell/acme/-/call/put', { method: 'POST', body: '{"key":["a"],"value":2}',
		headers: { 'Content-Type': 'application/json', Traceparent: '00-`+id+`-b7ad6b7169203331-01' } }), true)`)
	b.until("[...document.querySelectorAll('.wf-name')].some((e) => e.innerText.includes('turn put'))")
	// Spans that are each other's parents are shown once.
	js[bool](b, `(import('./trace.js').then(({ order }) => {
		const start = (s) => ({ start: '2027-01-01T00:00:0' + s + 'Z' });
		window.order = order([{ span_id: 'b', parent_id: 'a', ...start(2) }, { span_id: 'a', parent_id: 'b', ...start(1) }, { span_id: 'c', ...start(3) }])
			.map(({ s, depth }) => s.span_id + depth).join(' ');
	}), true)`)
	b.until("window.order")
	if got := js[string](b, "window.order"); got != "c0 a0 b1" {
		t.Errorf("the order is %s", got)
	}
	b.calm()
}

// TestOneTrace opens a trace as a waterfall, with the spans of another actor that took part.
func TestOneTrace(t *testing.T) {
	s := newSite(t, "")
	s.fly(0)
	b := s.open("")
	b.visit("/actor/airport/ORD/-/traces")
	b.until("[...document.querySelectorAll('a.row')].some((a) => a.innerText.includes('airport.depart'))")
	js[bool](b, "([...document.querySelectorAll('a.row')].find((a) => a.innerText.includes('airport.depart')).click(), true)")
	b.until("document.querySelectorAll('.wf-row').length > 3")
	b.click("Find in other actors")
	b.until("document.querySelectorAll('.lane').length > 1")
	b.shows("route/ORD/LAX")
	id := js[string](b, "location.hash.split('?')[0].split('/').pop()")
	b.visit("/traces")
	b.fill("Actor or trace", id)
	js[bool](b, "(document.querySelector('.head form').requestSubmit(), true)")
	b.until("location.hash.startsWith('#/trace/') && document.querySelectorAll('.lane').length > 1") // it asks all actors at once
	js[bool](b, "([...document.querySelectorAll('.wf-name button')].find((e) => e.innerText.includes('turn')).click(), true)")
	b.until("document.querySelector('.detail .facts')")
	b.screenshot("trace")
	b.size(390, 844)
	if wide := js[int](b, "document.documentElement.scrollWidth"); wide > 390 {
		t.Errorf("on a phone the page is %d pixels wide", wide)
	}
	b.calm()
}
