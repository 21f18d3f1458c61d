package browsertest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestEditorsAndReasons types while the page refreshes, gives empty reasons, and reads numbers that
// JavaScript formats differently.
func TestEditorsAndReasons(t *testing.T) {
	s := newSite(t, "")
	s.call("cell/acme", "kv.set_index", object{"prefix": []any{"note"}, "fields": []any{object{"path": "title"}}})
	var mutations []any
	for i := range 3 { // a word in all of them gets scores such as 8.1e-07
		mutations = append(mutations,
			object{"op": "put", "key": []any{"note", i}, "value": object{"title": "apple" + strings.Repeat(" pear", 20*i)}})
	}
	s.call("cell/acme", "kv.commit", object{"mutations": mutations})
	b := s.open("#/actor/cell/acme/-/store/search?find=apple")
	b.until("document.querySelectorAll('[aria-label=Matches] tbody tr').length === 3")

	s.call("cell/acme", "kv.commit",
		object{"mutations": []any{object{"op": "put", "key": []any{"long"}, "value": strings.Repeat("x", 50_000)}}})
	b.visit("/actor/cell/acme/-/store/entries?key=" + url.QueryEscape(`["long"]`))
	b.click("show all")
	rows := "document.querySelectorAll('[aria-label=Entries] tbody tr').length === "
	b.until(rows + "4")
	js[bool](b, "(document.querySelector('input[aria-label=Prefix]').focus(), true)")
	b.press("no")
	s.call("cell/acme", "kv.commit", object{"mutations": []any{object{"op": "put", "key": []any{"a"}, "value": 1}}})
	b.until(rows + "5") // it was refreshed, but not with half a prefix
	if n := js[int](b, "document.querySelector('pre.json').innerText.length"); n != 50_002 {
		t.Errorf("%d characters of the value are left", n)
	}
	b.press("te")
	if typed := js[string](b, "document.activeElement?.value ?? ''"); typed != "note" {
		t.Errorf("the field has %q", typed)
	}
	b.fill("Filter", `{"title":`)
	b.click("List")
	b.until("document.querySelector('.page .fault')")
	b.fill("Filter", "")
	b.click("List")
	b.until(rows + "3")

	before := s.call("cell/acme", "kv.count", object{})["count"]
	b.click("New entry…")
	b.fill("reason", "  ")
	b.click("Commit")
	b.until("document.querySelector('dialog[open] .fault')")
	b.click("Cancel")
	b.until("!document.querySelector('dialog')")
	b.visit("/actor/cell/acme/-/store/atomic")
	b.fill("Key of the mutation", "made/here", "Value", "[1]")
	b.click("Commit…")
	b.fill("reason", "  ")
	b.click("Commit")
	b.until("document.querySelector('dialog[open] .fault')")
	b.click("Cancel")
	b.until("!document.querySelector('dialog')")
	b.visit("/actor/cell/acme/-/sql")
	b.click("Unlock…")
	b.fill("reason", "  ")
	b.click("Unlock")
	b.until("document.querySelector('dialog[open] .fault')")
	b.click("Cancel")
	if after := s.call("cell/acme", "kv.count", object{})["count"]; after != before {
		t.Errorf("%v entries, %v before", after, before)
	}
	b.calm()
}

// TestBusyPages opens pages of a busy actor and of a large state.
func TestBusyPages(t *testing.T) {
	s := newSite(t, "")
	s.fly(0)
	b := s.open("#/actor/airport/ORD/-/state")
	b.shows("as of version")
	asked := "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('%s')).length"
	js[bool](b, "(performance.clearResourceTimings(), true)")
	b.until(fmt.Sprintf(asked, "/airport/ORD/-/") + " > 1")
	if n := js[int](b, fmt.Sprintf(asked, "state.get")); n > 1 {
		t.Errorf("a state that has not changed was read %d times again", n)
	}
	rows := "document.querySelectorAll('a.row').length"
	s.call("cell/acme", "put", object{"key": []any{"c"}, "value": 1})
	ofNode := s.open("#/traces?type=cell")
	ofNode.until(rows)
	ofNode.until("document.querySelector('.live .badge.good')")
	ofNode.hide()
	js[bool](ofNode, "(window.before = "+rows+", true)")

	// Changed values of entries are read again.
	const size = 200_000
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": strings.Repeat("x", size)})
	b.visit("/actor/cell/acme/-/store/entries?key=" + url.QueryEscape(`["a"]`))
	b.until("document.querySelector('.entry .facts')")
	js[bool](b, "(performance.clearResourceTimings(), true)")
	b.until(fmt.Sprintf(asked, "kv.list") + " > 1")
	if n := js[int](b, "performance.getEntriesByType('resource').filter((e) => e.name.includes('/kv.')).reduce((n, e) => n + e.decodedBodySize, 0)"); n > size/10 {
		t.Errorf("of entries that have not changed %d bytes are read", n)
	}
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": "changed"})
	s.call("cell/acme", "put", object{"key": []any{"b"}, "value": "added"})
	b.until("[...document.querySelectorAll('.panel')].filter((e) => e.innerText.includes('\"changed\"')).length > 1")
	b.shows(`"added"`)

	// The traces of an actor are read once, and its spans arrive as they end.
	b.visit("/actor/cell/acme/-/traces")
	b.until("document.querySelector('.live .badge.good') && " + rows)
	b.until(fmt.Sprintf(asked, "trace.read") + " > 1")
	js[bool](b, "(performance.clearResourceTimings(), window.before = "+rows+", true)")
	for range 3 {
		s.call("cell/acme", "put", object{"key": []any{"c"}, "value": 1})
	}
	b.until(rows + " >= before + 3")
	if n := js[int](b, fmt.Sprintf(asked, "trace.read")); n > 0 {
		t.Errorf("the traces were read %d times again", n)
	}
	// So do the spans of the few actors that the page of a node follows. It is hidden, and reads
	// nothing.
	ofNode.until(rows + " > before")
	ofNode.calm()

	js[bool](b, `(import('./page.js').then(({ Page }) => {
		const page = new Page(document.createElement('div'), [], new URLSearchParams());
		window.drawn = [];
		const part = page.section({ title: 'x', show: (n) => { drawn.push(n); return String(n); } });
		for (let n = 0; n <= 10000; n++) part.set(n);
	}), true)`)
	b.until("window.drawn?.at(-1) === 10000")
	if n := js[int](b, "drawn.length"); n > 100 {
		t.Errorf("10,001 data that come at once are drawn %d times", n)
	}

	// A page that takes long to draw is drawn less often.
	js[bool](b, `(import('./page.js').then(({ Page }) => {
		const page = new Page(document.createElement('div'), [], new URLSearchParams());
		const real = performance.now;
		let now = 0, drawn = 0;
		performance.now = () => now;
		const part = page.section({ title: 'x', show: () => { drawn++; now += 1000; return ''; } });
		part.set(1);
		now += 200;
		part.set(2);
		window.often = drawn;
		now += 4000;
		part.set(3);
		window.later = drawn;
		performance.now = real;
		page.abort.abort();
	}), true)`)
	b.until("window.later")
	if often, later := js[int](b, "often"), js[int](b, "later"); often != 1 || later != 2 {
		t.Errorf("it was drawn %d times at once and %d times later", often, later)
	}

	// For an actor with many spans the latest are kept, and reading continues where it stopped.
	js[bool](b, `(import('./spans.js').then(({ hold }) => {
		const of = { spans: new Map(), upTo: 0 };
		const spans = (from) => Array.from({ length: 1500 }, (_, i) => ({ span_id: from + i, start: new Date(from + i).toISOString(), end: new Date(from + i).toISOString() }));
		hold(of, { spans: spans(0), more: true }, 0);
		const after = of.upTo;
		hold(of, { spans: spans(1499), more: false, now: new Date(20000).toISOString() }, 0);
		window.holds = [after, of.upTo, of.spans.size, of.spans.has(2998), of.spans.has(1)].join();
	}), true)`)
	b.until("window.holds")
	if got := js[string](b, "holds"); got != "1499,10000,1500,true,false" {
		t.Errorf("it holds %s", got)
	}
	b.calm()
}

// TestStrangeKeys opens actors whose keys look like paths, escapes and queries.
func TestStrangeKeys(t *testing.T) {
	s := newSite(t, "")
	keys := []string{"a/b", "~..", "~.", "~-", "~", "%2F", "😀", "שלום", "a b ", "?x#y", "a\u202eb", "-/x", "~~"} // in the escapes of paths
	for _, key := range keys {
		s.call("cell/"+url.PathEscape(key), "kv.commit", object{"mutations": []any{object{"op": "put", "key": []any{"a"}, "value": 1}}})
	}
	b := s.open("#/actors?type=cell")
	b.until(fmt.Sprint("document.querySelectorAll('a.row').length === ", len(keys)))
	links := js[[]string](b, "[...document.querySelectorAll('a.row')].map((e) => e.getAttribute('href'))")
	for i, name := range js[[]string](b, "[...document.querySelectorAll('a.row')].map((e) => e.innerText)") {
		js[bool](b, "(location.hash = "+quote(links[i])+", true)")
		b.until("document.querySelector('h1.address')?.innerText.startsWith(" + quote(name) + ") && document.querySelector('.why')")
		js[bool](b, "(import('./format.js').then((m) => { window.again = m.link(m.parseAddress("+quote(name)+")); }), true)")
		b.until("window.again === " + quote(links[i])) // the address opens it, too
	}
	b.calm()
}

// TestPagesSayWhatIsGone stops the node, starts it with a token, and destroys the actor, while the
// actor's page is open.
func TestPagesSayWhatIsGone(t *testing.T) {
	s := newSite(t, "")
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": 1})
	const live, status = "document.querySelector('.live .badge.good')", "document.body.innerText.includes('Activations that wrote')"
	b := s.open("#/actor/cell/acme/-/events")
	b.refused = "Failed to load resource" // the console says so
	b.until(live)
	addr := s.rt.Addr()
	s.stop()
	b.until("document.querySelector('.live .badge')?.innerText === 'lost'")
	b.shows("The node does not answer.")
	s.start(addr, "secret")
	b.fill("token", "secret")
	b.click("Continue")
	b.until("!document.querySelector('.fault') && " + live)
	b.until("!document.body.innerText.includes('No token.')")
	b.visit("/actor/cell/acme/-/")
	b.until(status)
	b.visit("/actor/cell/acme/-/events")
	b.until(live)
	js[bool](b, "(fetch('../actors/cell/acme/-/', { method: 'DELETE', headers: { Authorization: 'Bearer secret' } }), true)")
	b.shows("there is no actor cell/acme")
	b.visit("/actor/cell/acme/-/")
	b.shows("there is no actor cell/acme")
	b.until("!" + status)
	b.calm()
}

// TestLongNames checks that no long name makes a page scroll sideways or a table hide its verbs.
func TestLongNames(t *testing.T) {
	s := newSite(t, "")
	long := strings.Repeat("averylongname", 20)
	at := "cell/" + long
	s.call(at, "kv.commit", object{"mutations": []any{object{"op": "put", "key": []any{long, long}, "value": long}}})
	s.call(at, "queue.send", object{"queue": long[:50], "messages": []any{object{"body": long}}})
	s.call(at, "schedule.set",
		object{"name": long[:50], "cron": "0 3 * * *", "payload": object{"queue": "jobs", "body": strings.Repeat(long, 2)}})
	s.call(at, "sql.exec", object{"reason": "a test", "sql": `CREATE TABLE "` + long + `" (n INTEGER)`})
	b := s.open("")
	for _, page := range []struct {
		at, want string
		within   string // these must be within their cell and their table at any time
	}{
		{"/actor/" + at + "/-/", "1 message waits", ""},
		{"/actor/" + at + "/-/sql", "averylongname", ""},
		{"/actor/" + at + "/-/queues", "pending", ".verbs button"},
		{"/actor/" + at + "/-/timers", "0 3 * * *", ".verbs button"},
		{"/traces?type=cell", "http POST cell.sql.exec", "tbody time"},
		{"/actors?type=cell", "averylongname", "tbody time"},
		{"/audit", "schedule.set", "tbody td.wraps"},
	} {
		b.visit(page.at)
		for _, width := range []int64{1360, 390} {
			b.size(width, 900)
			b.until("document.querySelector('.page').innerText.includes(" + quote(page.want) + ")")
			if wide := js[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
				t.Errorf("%s is %d pixels wide of %d", page.at, wide, width)
			}
			// The longest text of a time.
			if page.within != "" &&
				!js[bool](b,
					"((times, all) => (times.forEach((e) => { e.innerText = '1 h 59 min ago'; }), all.length > 0 && all.every((e) => e.getBoundingClientRect().left >= e.closest('td').getBoundingClientRect().left && e.getBoundingClientRect().right <= e.closest('.scroll').getBoundingClientRect().right)))([...document.querySelectorAll('tbody time')].filter((e) => /now|ago|in /.test(e.innerText)), [...document.querySelectorAll('"+page.within+"')])") {
				t.Errorf("on %s at %d pixels something is cut off", page.at, width)
			}
		}
	}
	b.visit("/actor/" + at + "/-/store/entries")
	b.until("document.querySelector('[aria-label=Entries] td')?.offsetHeight < 150") // of a long key only the first lines show
	b.calm()
}
