package natspub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
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

// The texts of testdata/messages are a promise: programs read them.
// `go test -run Exactly -rewrite ./runtime/internal/natspub` writes them anew.
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
	e := newEnvelope(t)
	datadriven.RunTest(t, "testdata/messages", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "life":
			e.begin(rowless, 5)
			return dump(e.message(0))
		case "omitted":
			e.begin(committed, 0)
			m := e.message(0)
			e.omit()
			return dump(m)
		case "next": // after a message without its data
			return dump(e.message(1))
		}
		e.begin(committed, 0)
		var i int
		d.ScanArgs(t, "at", &i)
		return dump(e.message(i))
	})
}
