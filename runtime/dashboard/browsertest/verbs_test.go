package browsertest

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
)

// TestVerbs clicks the main verbs. Each asks for a reason, and the node receives it.
func TestVerbs(t *testing.T) {
	s := newSite(t, "")
	s.fly(0)
	s.store("cell/acme")
	b := s.open("#/actor/cell/acme/-/")
	const reason = "ticket 4711: “ä”"
	answer := func(submit, operation string, fields ...string) {
		t.Helper()
		b.until("document.querySelector('dialog[open]')")
		b.fill(append(fields, "reason", reason)...)
		b.click(submit)
		b.until("!document.querySelector('dialog[open]')")
		if got := s.reason(operation); got != reason {
			t.Errorf("%s got the reason %q", operation, got)
		}
	}

	b.click("Pause")
	b.click("Pause") // without a reason the browser keeps the dialog
	b.until("document.querySelector('dialog[open] input:invalid')")
	answer("Pause", "operate actor.pause")
	b.shows("paused " + reason)
	b.click("Resume")
	answer("Resume", "operate actor.resume")
	b.until("![...document.querySelectorAll('.badge')].some((e) => e.innerText === 'paused')")

	b.visit("/actor/cell/acme/-/queues")
	b.click("Requeue all")
	answer("Requeue all", "operate queue.dead.requeue")
	b.shows("No dead letters.")
	b.click("Skip")
	answer("Skip", "operate queue.skip")
	b.until("document.querySelector('[aria-label=\"Dead letters\"]')")

	b.visit("/actor/cell/acme/-/store/entries?key=" + `["exact"]`)
	b.shows("9007199254740993")
	b.click("Edit…")
	answer("Commit", "call kv.commit", "value", `{"n":9007199254740995}`)
	b.shows("9007199254740995")
	b.click("Delete…")
	answer("Delete", "call kv.commit")
	b.shows("There is no such entry.")

	b.visit("/actor/cell/acme/-/store/atomic")
	b.fill("Key of the mutation", "made/here", "Value", "[1]")
	b.click("Commit…")
	answer("Commit", "call kv.commit")
	b.shows("Done.")
	if entry := s.call("cell/acme", "kv.get", object{"key": []any{"made", "here"}})["entry"]; entry == nil {
		t.Error("the commit has put nothing")
	}

	b.visit("/actor/cell/acme/-/sql")
	b.fill("SQL", "SELECT name, n FROM customer")
	b.press(kb.End)
	js[bool](b, "(document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true})), true)")
	b.shows("9007199254740993")
	b.harmless()
	b.refused = "sql.query" // the console says that the node refused it
	b.fill("SQL", "DELETE FROM customer")
	js[bool](b, "(document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true})), true)")
	b.until("document.querySelector('.result .fault')")
	b.click("Unlock…")
	b.fill("reason", reason)
	b.click("Unlock")
	js[bool](b, "(document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true})), true)")
	b.shows("1 row changed")
	if got := s.reason("call sql.exec"); got != reason {
		t.Errorf("SQL got the reason %q", got)
	}

	b.visit("/actor/claim/100000/-/run")
	b.until("[...document.querySelectorAll('.part button')].some((e) => e.innerText === 'Pause')")
	js[bool](b, "([...document.querySelectorAll('.part button')].find((e) => e.innerText === 'Pause').click(), true)")
	answer("Pause", "operate workflow.pause")
	b.shows("paused: operator")
	b.click("Graph")
	b.until("document.querySelector('.graph .node')")

	b.visit("/actors?type=cell")
	b.click("Create…")
	answer("Create", "create", "address", "cell/new/one")
	b.until("location.hash === '#/actor/cell/new/one/-/'")

	b.visit("/actor/cell/acme/-/")
	b.click("Destroy…")
	b.until("document.querySelector('dialog[open] button.danger')?.disabled")
	answer("Destroy", "destroy", "confirm", "cell/acme")
	b.until("location.hash === '#/actors?type=cell'")
	b.calm()
}

// TestRepair clicks the verbs that change a state, an alarm and a message, and finds them in the
// audit log.
func TestRepair(t *testing.T) {
	s := newSite(t, "")
	s.fly(0)
	s.store("cell/acme")
	depart := func(number int64) {
		t.Helper()
		_, err := traffic.Depart.Call(t.Context(), traffic.Airports.Ref(s.rt, "DEN"),
			traffic.Flight{Number: number, Destination: "LAX", Delay: 90})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(20) { // this congests the airport, and arms its alarm
		depart(200_000 + i)
	}
	b := s.open("#/actor/airport/DEN/-/state")
	const reason = "ticket 4712"
	answer := func(submit, operation string, fields ...string) {
		t.Helper()
		b.until("document.querySelector('dialog[open]')")
		b.fill(append(fields, "reason", reason)...)
		b.click(submit)
		b.until("!document.querySelector('dialog[open]')")
		if got := s.reason(operation); got != reason {
			t.Errorf("%s got the reason %q", operation, got)
		}
	}
	b.click("Edit…")
	b.until("document.querySelector('dialog[open] [name=state]')?.value.includes('\"Claims\": 0')")
	b.screenshot("edit-state")
	changed := js[string](b, "document.querySelector('dialog[open] [name=state]').value.replace('\"Claims\": 0', '\"Claims\": 77')")
	answer("Replace", "operate state.replace", "state", changed)
	b.until("document.querySelector('pre.json')?.innerText.includes('\"Claims\": 77')")
	if state := s.call("airport/DEN", "state.get", nil)["state"].(object); state["Claims"] != 77.0 {
		t.Error("the state is", state)
	}
	b.refused = "state.replace" // the console says that the node refused it
	b.click("Edit…")
	b.fill("state", `{"Strange":1}`, "reason", reason)
	b.click("Replace")
	b.until("document.querySelector('dialog[open] .fault')?.innerText.includes('invalid_argument')")
	b.click("Cancel")
	b.until("!document.querySelector('dialog')")
	b.click("Edit…")
	b.until("document.querySelector('dialog[open] [name=state]')")
	depart(200_020)
	b.fill("reason", reason)
	b.click("Replace")
	b.until("document.querySelector('dialog[open] .fault')?.innerText.includes('failed_precondition')") // it has changed since it was shown
	b.click("Cancel")

	b.visit("/actor/airport/DEN/-/timers")
	b.shows("quiet")
	b.click("Run now")
	answer("Run now", "operate alarm.run")
	b.shows("No alarm is armed.")

	b.visit("/actor/cell/acme/-/queues")
	b.shows("ann")
	b.click("Edit…")
	answer("Replace", "operate queue.replace", "body", `{"to":"beth"}`)
	b.shows("beth")

	b.visit("/audit")
	b.until("['state.replace', 'alarm.run', 'queue.replace'].every((verb) => [...document.querySelectorAll('.badge')].some((e) => e.innerText === verb))")
	js[bool](b, "(document.querySelectorAll('details')[2].open = true)")
	b.until("document.querySelectorAll('details')[2].querySelector('pre.json')")
	b.screenshot("audit-of-the-node")
	b.fill("Verb", "state.replace")
	b.until("document.querySelectorAll('tbody tr').length === 1 && document.querySelector('.page[data-ready] a.row')?.innerText === 'airport/DEN'")
	js[bool](b, "(document.querySelector('tbody a.row').click(), true)")
	b.until("location.hash === '#/actor/airport/DEN/-/audit' && document.querySelectorAll('tbody tr').length === 2")
	b.calm()
}

// TestFind selects and sorts actors, checks the error of a condition, and opens one of the busiest
// actors.
func TestFind(t *testing.T) {
	s := newSite(t, "")
	s.fly(20)
	b := s.open("#/actors?type=airport")
	b.until("document.querySelectorAll('a.row').length > 2")
	b.fill("Conditions", "size>1KiB, state=asleep")
	b.shows("No such actors.")
	b.fill("Conditions", "size>1KiB state=awake")
	b.until("document.querySelectorAll('a.row').length > 2")
	b.fill("Order", "-key")
	b.until("location.hash.includes('sort=-key') && ((rows) => rows.length > 2 && rows.every((r, i) => i === 0 || rows[i - 1] > r))([...document.querySelectorAll('a.row')].map((e) => e.innerText))")
	s.call("tenant/a%2Fb", "choose", "free")
	b.visit("/actors?type=tenant&prefix=a%252Fb")
	b.until("document.querySelectorAll('a.row').length === 1")
	s.do("DELETE", "actors/tenant/a%2Fb/-/", nil)
	s.call("tenant/a", "choose", "pro")
	s.call("tenant/b", "choose", hostile)
	b.visit("/actors?type=tenant")
	b.shows("plan=pro")
	b.shows("plan=" + hostile)
	b.fill("Order", "-plan")
	b.until("location.hash.includes('sort=-plan') && document.querySelector('a.row')?.innerText === 'tenant/a'")
	b.screenshot("attributes")
	b.fill("Conditions", "plan="+strconv.Quote(hostile)+",size>1")
	b.until("document.querySelectorAll('a.row').length === 1 && document.querySelector('a.row').innerText === 'tenant/b'")
	b.harmless()
	b.refused = "/actors" // the console says that the node refused it
	b.fill("Conditions", "colour=red")
	b.until("document.querySelector('.fault')?.innerText.includes('colour')")
	b.screenshot("condition")
	b.visit("/overview?top=size")
	b.until("document.querySelector('[aria-label=\"Top actors\"] a.row')")
	b.click("turns")
	b.until("document.querySelector('.segments [aria-pressed=true]')?.innerText === 'turns' && location.hash.endsWith('top=turns')")
	js[bool](b, "(document.querySelector('[aria-label=\"Top actors\"] a.row').click(), true)")
	b.until("location.hash.endsWith('/usage') && document.querySelector('[aria-label=Usage] tbody tr')")
	b.calm()
}

// TestLive checks that changed entries and events are shown without a refresh.
func TestLive(t *testing.T) {
	s := newSite(t, "")
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": 1})
	b := s.open("#/actor/cell/acme/-/store/watch")
	b.until("document.querySelector('.live .badge.good')")
	s.call("cell/acme", "kv.commit", object{"mutations": []any{object{"op": "put", "key": []any{"late"}, "value": "seen"}}})
	b.shows(`"seen"`)
	b.visit("/actor/cell/acme/-/events")
	b.until("document.querySelector('.live .badge.good')")
	s.call("cell/acme", "put", object{"key": []any{"b"}, "value": "second"})
	b.until("[...document.querySelectorAll('td')].some((e) => e.innerText === 'changed')")
	s.call("cell/acme", "stream.append", object{"stream": "tokens", "items": []any{"early"}})
	b.visit("/actor/cell/acme/-/streams")
	b.shows(`"early"`)
	s.call("cell/acme", "stream.append", object{"stream": "tokens", "items": []any{"late item"}, "close": true})
	b.shows(`"late item"`)
	b.shows("closed")
	b.visit("/feed?kind=kv")
	b.until("document.querySelector('.live .badge.good')")
	s.call("cell/other", "put", object{"key": []any{hostile}, "value": hostile})
	b.until("[...document.querySelectorAll('td')].some((e) => e.innerText === 'cell/other')")
	b.shows("onerror")
	b.harmless()
	b.visit("/actor/cell/acme/-/events")
	b.until("document.querySelector('.live .badge.good')")
	b.refused = "status of 404" // the console says that the actor does not exist
	s.do("DELETE", "actors/cell/acme/-/", nil)
	b.shows("not live")
	b.calm()
}

func TestKeyboard(t *testing.T) {
	s := newSite(t, "")
	s.call("cell/acme", "put", object{"key": []any{"a"}, "value": 1})
	s.call("cell/beta", "put", object{"key": []any{"a"}, "value": 1})
	b := s.open("")
	b.until("document.querySelector('.tiles')")
	b.press("?")
	b.until("document.querySelector('dialog[open] .keys')")
	b.press(kb.Escape)
	b.until("!document.querySelector('dialog')")
	b.press("ga")
	b.until("location.hash === '#/actors' && document.querySelector('.page.actors a.row')")
	b.press("jj")
	b.until("document.activeElement?.innerText === 'cell/beta'")
	b.press("k")
	b.press(kb.Enter)
	b.until("location.hash === '#/actor/cell/acme/-/' && document.querySelector('.why')")
	b.press("]")
	b.until("document.querySelector('.tabs a[aria-current]')?.innerText === 'State'")
	b.press("u")
	b.until("location.hash === '#/actor/cell/acme/-/'")
	b.press("/")
	b.until("document.querySelector('dialog[open] input') === document.activeElement")
	b.press("cell/beta" + kb.Enter)
	b.until("location.hash === '#/actor/cell/beta/-/'")
	b.press("gw")
	b.until("location.hash === '#/runs'")
	b.calm()
}

// TestToken checks that the page asks for the token, removes it from the address, and stores it
// nowhere.
func TestToken(t *testing.T) {
	s := newSite(t, "secret")
	b := s.open("")
	b.until("document.querySelector('dialog[open] [name=token]')")
	b.click("Cancel")
	b.until("document.querySelector('.fault')")
	js[bool](b, "(window.seen = document.querySelectorAll('dialog').length, new MutationObserver(() => { if (document.querySelector('dialog')) seen++; }).observe(document.body, {childList: true}), true)")
	js[bool](b, "(performance.clearResourceTimings(), true)")
	b.until("performance.getEntriesByType('resource').some((e) => e.name.endsWith('/metrics'))") // it looks again
	if js[int](b, "seen") > 0 {
		t.Error("the page asks again without being asked")
	}
	js[bool](b, "(location.hash = '#/actors', true)")
	b.fill("token", "wrong")
	b.click("Continue")
	b.shows("The node refused the token")
	b.fill("token", "secret")
	b.click("Continue")
	b.shows("No such actors.")
	if left := js[string](b, "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"); left != "{}{}" {
		t.Errorf("the page keeps %s", left)
	}
	other := s.open("#token=secret&to=/actors")
	other.shows("No such actors.")
	if at := js[string](other, "location.href"); at != other.base+"#/actors" {
		t.Errorf("the address is %s", at)
	}
	b.calm()
	other.calm()
}

// TestInspector opens one actor with an address from cairn inspector.
func TestInspector(t *testing.T) {
	s := newSite(t, "")
	s.store("cell/acme")
	made := s.call("cell/acme", "token.create", object{"rights": []any{"read", "watch", "inspect"}, "label": "inspector"})
	b := s.open("#token=" + made["token"].(string) + "&to=/actor/cell/acme/-/")
	b.shows("This token opens one actor.")
	b.shows("Activations that wrote")
	if js[bool](b, "[...document.querySelectorAll('button')].some((e) => e.innerText === 'Pause')") {
		t.Error("the page has verbs")
	}
	for at, want := range map[string]string{"keys": "kv-scope", "queues": "onerror", "store/entries": "exact",
		"timers": "nightly", "state": "as of version", "usage": "Time in handlers"} {
		b.visit("/actor/cell/acme/-/" + at)
		b.shows(want)
	}
	b.calm()
	js[bool](b, "(location.hash = '#/actor/cell/other/-/', true)")
	b.until("document.querySelector('dialog[open] [name=token]')") // it is not the token of this one

	made = s.call("cell/acme", "token.create", object{"rights": []any{"read"}})
	b = s.open("#token=" + made["token"].(string) + "&to=/actor/cell/acme/-/")
	// All that the token allows.
	b.until("location.hash === '#/actor/cell/acme/-/store' && document.querySelector('[aria-current]')?.innerText === 'Store'")
	b.shows("Search indexes")
}

// TestColours takes pictures of the dark theme.
func TestColours(t *testing.T) {
	s := newSite(t, "")
	s.fly(50)
	b := s.open("")
	b.until("document.querySelector('.tiles')")
	js[bool](b, "(document.getElementById('theme').click(), true)")
	light := js[string](b, "(document.getElementById('theme').click(), getComputedStyle(document.body).backgroundColor)")
	dark := js[string](b, "(document.getElementById('theme').click(), getComputedStyle(document.body).backgroundColor)")
	if light == dark {
		t.Errorf("both themes are %s", light)
	}
	b.visit("/actor/airport/ORD/-/keys")
	b.screenshot("dark")
	b.calm()
}
