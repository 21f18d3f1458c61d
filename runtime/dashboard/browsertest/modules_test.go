package browsertest

import "testing"

// TestModules checks the functions of the pages, in the browser.
func TestModules(t *testing.T) {
	s := newSite(t, "")
	b := s.open("")
	b.until("document.querySelector('.tiles')")
	js[bool](b, "(Promise.all(['cbor', 'json', 'api', 'format', 'metrics'].map((m) => import('./' + m + '.js'))).then((all) => { window.m = Object.assign({}, ...all); window.bytes = (hex) => Uint8Array.from(hex.match(/../g), (x) => parseInt(x, 16)); }), true)")
	b.until("window.m")
	for expression, want := range map[string]string{
		`m.stringify(m.parse('[9007199254740993,7.0,1e3,-0,"x",{"a":18446744073709551615}]'))`:                                                 `[9007199254740993,7.0,1e3,-0,"x",{"a":18446744073709551615}]`,
		`m.stringify(m.decode(bytes('a26161fb3ff800000000000061621bffffffffffffffff')))`:                                                       `{"a":1.5,"b":18446744073709551615}`,
		`m.stringify(m.decode(bytes('8420f93e00f64201ff')))`:                                                                                   `[-1,1.5,null,{"$hex":"01ff"}]`,
		`m.stringify(m.decode(bytes('a1695f5f70726f746f5f5f01')))`:                                                                             `{"__proto__":1}`,
		`m.stringify(m.stored(1, bytes('01a1616101')))`:                                                                                        `{"a":1}`,
		`m.stringify(m.stored(7, bytes('72657365727665')))`:                                                                                    `"reserve"`,
		`String(m.stored(1, bytes('ff')))`:                                                                                                     `undefined`,
		`m.actorPath({type: 'a', key: ['', '-', '.', '..', '~x', 'b/c', 'ä', '%']})`:                                                           `actors/a/~/~-/~./~../~~x/b%2Fc/%C3%A4/%25/-/`,
		`['~', '~-', '~..', '~~x', 'b%2Fc'].map(m.unsegment).join('|')`:                                                                        `|-|..|~x|b/c`,
		`m.address(m.parseAddress('cell/a%2Fb/~-/x y'))`:                                                                                       `cell/a%2Fb/~-/x y`,
		`[m.number(m.parse("9007199254740993")), m.bytes(m.parse("1e-07")), m.amount(m.parse("2.50")), m.seconds(m.parse("1e-07"))].join("|")`: `9,007,199,254,740,993|0 B|2.50|0.10 µs`,
		`m.stringify(m.parseAddress(m.address({type: "cell", key: [" a ", "%", "/"]})).key)`:                                                   `[" a ","%","/"]`,
		`[m.seconds(0.00042), m.seconds(3), m.span(93784000), m.bytes(1536), m.amount(12345)].join('|')`:                                       `420 µs|3 s|1 d 2 h|1.50 KiB|12.3k`,
		`(() => { const a = new m.Scrape('h_bucket{le="1"} 1\nh_bucket{le="2"} 1\nh_bucket{le="+Inf"} 1\n'), b = new m.Scrape('h_bucket{le="1"} 1\nh_bucket{le="2"} 11\nh_bucket{le="+Inf"} 11\nc{t="a\\"b,}"} 3\n'); return m.quantile(a, b, 'h', 0.5) + ' ' + b.by('c', 't').get('a"b,}') })()`: `1.5 3`,
	} {
		if got := js[string](b, expression); got != want {
			t.Errorf("%s is %s; want %s", expression, got, want)
		}
	}
	// Bytes that are not CBOR are an error, and cost no time or memory.
	for _, bad := range []string{"", "1b", "9bffffffffffffffff", "bbffffffffffffffff", "7bffffffffffffffff", "5f", "ff",
		"0101", "f8", "c0", "62ff"} {
		if js[bool](b, "(() => { try { m.decode(Uint8Array.from('"+bad+
			"'.match(/../g) ?? [], (x) => parseInt(x, 16))); return true; } catch { return false; } })()") {
			t.Errorf("%s is decoded", bad)
		}
	}
	// Server-sent events, cut into pieces at every position.
	js[bool](b, `(window.seen = [], (async () => {
		const text = ': hi\r\nid: 1\nevent: a\ndata: x\ndata: y\n\n\ndata:z\r\n\r\n', enc = new TextEncoder().encode(text);
		for (let cut = 0; cut < enc.length; cut++) {
			const body = new ReadableStream({start(c) { c.enqueue(enc.slice(0, cut)); c.enqueue(enc.slice(cut)); c.close(); }});
			const list = [];
			for await (const e of m.parseEvents(body)) if (e.event || e.data) list.push([e.id, e.event, e.data].join());
			seen.push(list.join('|'));
		}
		window.all = true;
	})(), true)`)
	b.until("window.all")
	if got := js[string](b, "[...new Set(seen)].join(' and ')"); got != "1,a,x\ny|,,z" {
		t.Errorf("events are read as %q", got)
	}
	// Pauses and renewed sections leave no listeners on the signal of a page, which may stay open
	// for days.
	js[bool](b, `(window.left = [], (async () => {
		const stop = new AbortController(), signal = stop.signal;
		let n = 0;
		for (const [name, by] of [['addEventListener', 1], ['removeEventListener', -1]]) {
			const f = signal[name].bind(signal);
			signal[name] = (...args) => { n += by; f(...args); };
		}
		for (let i = 0; i < 20; i++) await m.pause(0, signal);
		const last = m.pause(1e6, signal);
		left.push(n);
		stop.abort();
		await last;
		left.push(n);
	})(), true)`)
	b.until("left.length === 2")
	if got := js[string](b, "left.join()"); got != "1,0" {
		t.Errorf("listeners during the last pause and after it: %s", got)
	}
	b.calm()
}
