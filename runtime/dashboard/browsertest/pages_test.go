package browsertest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestPages opens each page on the flights example and on a cell with hostile values, at the width
// of a phone. No page wakes its actor, turns a value into markup, logs to the console, or scrolls
// sideways on a phone.
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
	t.Logf("the first load has %d bytes; the overview was there after %d ms",
		js[int](b, "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter((e) => e.name.includes('/dashboard/')).reduce((n, e) => n + e.transferSize, 0)"),
		js[int](b, "Math.round(performance.getEntriesByName('overview')[0]?.startTime ?? -1)"))
	const acme, fragment = "/actor/cell/acme/-/", "&lt;"
	b.size(390, 844)
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
			if wide := js[int](b, "document.documentElement.scrollWidth"); wide > 390 {
				t.Errorf("on a phone the page is %d pixels wide", wide)
			}
			if slices.Contains([]string{"overview", "actor", "entries", "run", "traces", "audit"}, page.name) {
				b.screenshot("phone-" + page.name)
			}
			if pictures() {
				b.size(1360, 900)
				b.screenshot(page.name)
				b.size(390, 844)
			}
			if strings.Contains(js[string](b, "document.body.innerText"), fragment) {
				t.Error("text is escaped twice")
			}
		})
	}
	b.t = t
	b.size(1360, 900)
	if state := s.state("cell/acme"); state != "asleep" {
		t.Errorf("looking at an actor made it %s", state)
	}
	b.calm()
}

// TestATraceFollowsItsActors checks that spans arrive in a waterfall as they end. Its page is
// hidden then, so it reads nothing.
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

// TestPagesOfSeveralActorsHaveOneStream checks that the stream is of the first actor that can be
// followed, and ends while the page is hidden, because a browser has six connections to a node for
// all its pages. The test invents an answer to each request of the page.
func TestPagesOfSeveralActorsHaveOneStream(t *testing.T) {
	s := newSite(t, "")
	b := s.open("#/overview")
	b.until("document.querySelector('.tiles')")
	const id = "0af7651916cd43dd8448eb211c80319c"
	js[bool](b, `(() => {
		window.streams = new Map();
		window.log = [];
		const real = fetch;
		window.fetch = async (url, o) => {
			const [, of] = /actors(?:[/]cell[/](.*)[/]-[/].*)?$/.exec(url.pathname) ?? [, null];
			if (of === null) return real(url, o);
			if (of === undefined) {
				log.push('list ' + url.search);
				if (url.searchParams.has('sort')) return Response.json({ code: 'failed_precondition', message: 'no index' }, { status: 409 });
				const at = (n) => '2027-01-01T00:00:00.' + String(n).padStart(6, '0') + 'Z';
				return Response.json({ actors: Array.from({ length: 30 }, (_, n) => ({ type: 'cell', key: ['n' + n], id: 'i' + n, updated: at(n) })) });
			}
			if (!url.pathname.endsWith('/traces')) {
				log.push('read ' + of);
				if (of === 'none') return Response.json({ code: 'permission_denied', message: 'no' }, { status: 403 });
				return Response.json({ now: '2027-01-01T00:00:01Z', spans: [{ trace_id: '`+id+`', span_id: 'open', name: 'open', start: '2027-01-01T00:00:00Z' }] });
			}
			log.push('stream ' + of);
			if (window.down) throw new TypeError('down');
			if (of === 'none') return Response.json({ code: 'permission_denied', message: 'no' }, { status: 403 });
			return new Response(new ReadableStream({ start(c) {
				streams.set(of, (event, data) => event ? c.enqueue(new TextEncoder().encode('event: ' + event + '\ndata: ' + JSON.stringify(data) + '\n\n')) : c.close());
				o.signal.addEventListener('abort', () => { streams.delete(of); c.error(o.signal.reason); });
			} }));
		};
		window.following = () => [...streams.keys()].join();
		return true;
	})()`)
	b.visit("/trace/" + id + "?actor=cell/none&actor=cell/a&actor=cell/b")
	b.until("following() === 'a'") // the first cannot be followed
	if got := js[string](b, "log.slice(0, 5).join()"); got != "read none,read a,read b,stream none,stream a" {
		t.Errorf("the page began with %s", got)
	}
	b.shows("1 of 3 actors live")
	b.shows("cell/none cannot be read: no") // and the spans of the others are shown
	b.until("document.querySelectorAll('.wf-bar b').length === 1")

	b.told(true)
	if got := js[string](b, "following()"); got != "" {
		t.Errorf("a hidden page follows %s", got)
	}
	js[bool](b, "(log.length = 0, true)")
	b.told(false)
	b.until("log.includes('read a') && following() === 'a'")
	js[bool](b, "(log.length = 0, streams.get('a')('cairn.gap', {}), true)")
	b.until("log.includes('read a')")
	js[bool](b, "(window.down = true, streams.get('a')(), true)")
	b.until("document.querySelector('.live .badge').innerText === 'lost'")
	js[bool](b, "(window.down = false, true)")
	b.shows("1 of 3 actors live")
	// A span that has not ended extends to the end of the latest span.
	js[bool](b, "(streams.get('a')('span', { trace_id: '"+id+
		"', span_id: 'ended', parent_id: 'open', name: 'ended', start: '2027-01-01T00:00:00Z', end: '2027-01-01T00:00:10Z' }), true)")
	b.until("document.querySelectorAll('.wf-bar b').length === 2 && document.querySelector('.wf-bar b.open').style.width === '100%'")

	// Without the listing index, the page shows the traces of the latest of any 200 actors.
	js[bool](b, "(log.length = 0, true)")
	b.visit("/traces")
	b.until("following() === 'n29'")
	b.shows("1 of 20 actors live")
	if got := js[string](b, "log.filter((l) => l.startsWith('list')).join()"); got != "list ?limit=200&sort=-updated,list ?limit=200" {
		t.Errorf("the page asked %s", got)
	}
	if js[bool](b, "log.includes('read n9')") || !js[bool](b, "log.includes('read n10')") {
		t.Error("the page did not read the 20 actors that changed last")
	}
	js[bool](b, "(log.length = 0, streams.get('n29')('cairn.gap', {}), true)")
	b.until("log.includes('read n29')")

	js[bool](b, "(import('./spans.js').then(({ liveness }) => { window.none = [liveness(null, 0)]; }), true)")
	b.until("window.none")
	if !js[bool](b, "none[0] === null") {
		t.Error("something is said of no actors")
	}
	b.calm()
}

// TestHiddenPagesFollowNothing checks that a hidden page has no stream, because a browser has six
// connections to a node for all its pages. When it is visible again, it shows the events of the
// meantime that the node still has, each once.
func TestHiddenPagesFollowNothing(t *testing.T) {
	s := newSite(t, "")
	put := func(key string) {
		s.call("cell/acme", "put", object{"key": []any{key}, "value": key})
		s.call("cell/acme", "stream.append", object{"stream": "tokens", "items": []any{key}})
	}
	put("before")
	const live, rows = "document.querySelector('.live .badge.good')",
		"[...document.querySelectorAll('tbody tr')].filter((e) => e.innerText.includes('%s')).length === %d"
	b := s.open("")
	for _, page := range []struct {
		at   string
		kept int // rows of events while the page was hidden
	}{
		{"/actor/cell/acme/-/events", 1},
		{"/actor/cell/acme/-/streams", 1},
		{"/actor/cell/acme/-/store/watch", 1},
		{"/feed?kind=event", 0}, // it begins at the present
	} {
		seen, hidden, again := page.at+" seen", page.at+" hidden", page.at+" again"
		b.visit(page.at)
		b.until(live)
		put(seen)
		b.until(fmt.Sprintf(rows, seen, 1))
		b.told(true)
		js[bool](b, `(window.idle = false, (async () => {
			while (!/^cairn_http_event_streams 0$/m.test(await (await fetch('../metrics')).text())) await new Promise((next) => setTimeout(next, 20));
			window.idle = true;
		})(), true)`)
		b.until("window.idle && !" + live)
		put(hidden)
		b.told(false)
		b.until(live)
		put(again)
		b.until(fmt.Sprintf(rows, again, 1))
		for text, want := range map[string]int{seen: 1, hidden: page.kept} {
			if !js[bool](b, fmt.Sprintf(rows, text, want)) {
				t.Errorf("%s does not show %q %d times:\n%s", page.at, text, want, js[string](b, "document.body.innerText"))
			}
		}
	}
	b.shows("the page was hidden")
	b.calm()
}

// TestAWatchGoesOnFromWhereItWas checks that a page that is visible again reads and shows only
// changes of the meantime. It reports values that it could not read, and continues.
func TestAWatchGoesOnFromWhereItWas(t *testing.T) {
	s := newSite(t, "")
	put := func(key string) {
		s.call("cell/acme", "put", object{"key": []any{key}, "value": key})
	}
	put("before")
	b := s.open("")
	b.visit("/actor/cell/acme/-/store/watch")
	const live = "document.querySelector('.live .badge.good')"
	b.until(live)
	js[bool](b, `(window.sent = [], window.broken = false, window.fetch = ((real) => async (url, o) => {
		if (String(url).includes('kv')) sent.push(String(url).split('/').pop() + (o.headers['Last-Event-ID'] ? ' again' : ''));
		if (broken && String(url).includes('call/kv')) return new Response('{"code":"internal","message":"it broke"}', { status: 500 });
		return real(url, o);
	})(fetch), true)`)
	away := func(change func()) {
		b.told(true)
		b.until("!" + live)
		change()
		b.told(false)
		b.until(live)
	}
	rows := func() string {
		return js[string](b, "[...document.querySelectorAll('tbody tr:not(.mark) td:nth-child(3)')].map((e) => e.innerText).join(' ')")
	}
	away(func() {})
	away(func() { put("one"); put("two") })
	b.until("document.querySelectorAll('tbody tr').length > 2")
	put("three")
	b.until("document.body.innerText.includes('three')")
	away(func() {
		s.do("DELETE", "actors/cell/acme/-/", nil)
		put("other")
	})
	b.until("document.body.innerText.includes('other')")
	if got := rows(); got != `["other"] ["three"] ["two"] ["one"]` {
		t.Errorf("it shows %s", got)
	}
	if sent := js[string](b, "sent.join()"); strings.Contains(sent, "again") {
		t.Errorf("it reads all again: %s", sent)
	}
	js[bool](b, "(broken = true)")
	away(func() { put("missed") })
	b.shows("it broke")
	put("still")
	b.until("document.body.innerText.includes('still')")
	js[bool](b, "((broken = false), true)")
	away(func() {})
	b.until("!document.querySelector('.fault')")
	if got := rows(); !strings.HasPrefix(got, `["missed"] ["still"]`) || strings.Count(got, "still") != 1 {
		t.Errorf("after a fault it shows %s", got)
	}
	b.calm()
}

// TestOneTrace opens a trace as a waterfall, with the spans of a second actor.
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
	js[bool](b, "(window.fetch = () => Promise.reject(new TypeError('down')), true)")
	b.visit("/trace/" + id + "?actor=airport/ORD&actor=route/ORD/LAX&actor=airport/LAX")
	b.shows("The node does not answer.")
	if n := js[int](b, "document.querySelectorAll('p.bad').length"); n != 1 {
		t.Errorf("that the node is away takes %d lines", n)
	}
	b.calm()
}
