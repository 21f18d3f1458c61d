package natspub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// dump prints a message in a fixed form.
func dump(m *nats.Msg) string {
	var names []string
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintln(&b, m.Subject)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(m.Header[name], "|"))
	}
	fmt.Fprintf(&b, "%s\n", m.Data)
	return b.String()
}

func newEnvelope(t testing.TB) *envelope {
	subjects, err := NewSubjects(DefaultRoot)
	must(t, err)
	return &envelope{subjects: subjects, namespace: DefaultNamespace}
}

func TestMessagesAreExactlyAsSpecified(t *testing.T) {
	id := keyspace.ActorID{0x12, 0x34, 0x3b, 0x9a, 0xca, 0, 0x80, 1, 0x80, 2, 3, 4, 5, 6, 7, 8}
	committed := &engine.ChangeSet{
		ID: id, Identity: engine.Identity{Namespace: "default", Type: "airport", Key: []string{"eu west", "Zürich/1"}},
		Generation: 2, Version: 17, TimeMS: 986_000_000_007,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Changes: []engine.Change{
			{Kind: engine.ChangeEvent, Name: "délai", Data: []byte(`{"mean":31.5}`), Durable: true},
			{Kind: engine.ChangeKV, Data: []byte(`{"version":17,"kind":"kv","op":"put"}`)},
			{Kind: engine.ChangeAlarm, Name: "clear", Data: []byte(`{"version":17,"kind":"alarm"}`)},
			{Kind: engine.ChangeLife, Name: "created", Data: []byte(`{"generation":2}`)},
			{Kind: engine.ChangeEvent, Name: "empty"},
		},
	}
	rowless := &engine.ChangeSet{ID: id, Identity: engine.Identity{Type: "hub"}, Version: 17, TimeMS: 986_000_000_007,
		Changes: []engine.Change{{Kind: engine.ChangeLife, Name: "slept", Data: []byte(`{"reason":"idle"}`)}}}
	headers := func(index, typ, source string, trace bool) string {
		s := "Nats-Msg-Id: 12343b9a-ca00-8001-8002-030405060708/17/" + index + "\n" +
			"ce-datacontenttype: application/json\n" +
			"ce-id: 12343b9a-ca00-8001-8002-030405060708/17/" + index + "\n" +
			"ce-source: " + source + "\n" +
			"ce-specversion: 1.0\n" +
			"ce-time: 2001-03-31T00:53:20.007Z\n" +
			"ce-type: run.cairn." + typ + "\n"
		if trace {
			s += "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"
		}
		return s
	}
	const source = "/default/airport/eu%20west/Z%C3%BCrich%2F1"
	e := newEnvelope(t)
	for i, want := range []string{
		"cairn.default.event.airport.délai.eu%20west.Zürich/1\n" + headers("0/986000000007", "event.airport.d%C3%A9lai", source, true) + `{"mean":31.5}` + "\n",
		"cairn.default.change.airport.kv.eu%20west.Zürich/1\n" + headers("1/986000000007", "change.airport.kv", source, true) + `{"version":17,"kind":"kv","op":"put"}` + "\n",
		"cairn.default.change.airport.alarm.eu%20west.Zürich/1\n" + headers("2/986000000007", "change.airport.alarm", source, true) + `{"version":17,"kind":"alarm"}` + "\n",
		"cairn.default.life.airport.created.eu%20west.Zürich/1\n" + headers("3/986000000007", "life.airport.created", source, true) + `{"generation":2}` + "\n",
		"cairn.default.event.airport.empty.eu%20west.Zürich/1\n" + headers("4/986000000007", "event.airport.empty", source, true) + "null\n",
	} {
		e.begin(committed, 0)
		if got := dump(e.message(i)); got != want {
			t.Errorf("change %d:\n%swant:\n%s", i, got, want)
		}
	}
	e.begin(rowless, 5)
	want := "cairn.default.life.hub.slept._\n" + headers("slept-986000000007-5", "life.hub.slept", "/default/hub", false) + `{"reason":"idle"}` + "\n"
	if got := dump(e.message(0)); got != want {
		t.Errorf("life change:\n%swant:\n%s", got, want)
	}
	e.begin(committed, 0)
	m := e.message(0)
	e.omit()
	want = "cairn.default.event.airport.délai.eu%20west.Zürich/1\nCairn-Data-Omitted: too_large\nCairn-Data-Size: 13\n" +
		headers("0/986000000007", "event.airport.d%C3%A9lai", source, true) + "\n"
	if got := dump(m); got != want {
		t.Errorf("without payload:\n%swant:\n%s", got, want)
	}
	if got := dump(e.message(1)); strings.Contains(got, "Omitted") {
		t.Errorf("the message after it:\n%s", got)
	}
}
