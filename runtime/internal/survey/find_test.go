package survey

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A cursor says where in the wake index a list of runs goes on, and nothing before or behind the list.
func TestACursorThatWasMadeUpIsRefused(t *testing.T) {
	cursor := func(q host.ListQuery, after []byte) error {
		t.Helper()
		s, err := newSearch(source{}, q)
		must(t, err)
		q.Cursor = base64.RawURLEncoding.EncodeToString(append(s.digest(), after...))
		_, err = newSearch(source{}, q)
		return err
	}
	failed := host.ListQuery{Type: "t", Where: []string{"run=failed"}}
	row := func(due int64) []byte {
		return keyspace.AppendWakeRow(nil, due, keyspace.ActorID{}, keyspace.WakeListed, "t", "failed")
	}
	for _, after := range [][]byte{nil, {0}, {0xff}, keyspace.AppendWakeTime(nil, keyspace.FailedRunsDue), row(keyspace.PausedRunsDue), row(0), append(row(keyspace.FailedRunsDue), 0)} {
		if err := cursor(failed, after); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%x: %v", after, err)
		}
	}
	check(t, cursor(failed, row(keyspace.FailedRunsDue)))
	if err := cursor(host.ListQuery{Type: "t", Where: []string{"state=awake"}}, nil); err != nil {
		t.Error(err) // after the actor whose key has no parts
	}
}

// Without any type an order is refused as it is with one.
func TestAnOrderIsCheckedWithoutTypes(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	defer store.Close()
	src := source{store: store, namespace: "ns", known: func(string) []host.Attribute { return nil }}
	for sort, code := range map[string]host.Code{"bogus": host.InvalidArgument, "run": host.InvalidArgument, "-": host.InvalidArgument, "created": host.InvalidArgument, "size": "", "-updated": ""} {
		if _, err := find(src, host.ListQuery{Sort: sort}); host.CodeOf(err) != code {
			t.Errorf("in the order %q: %v", sort, err)
		}
	}
}

func TestTheTextOfARefusedConditionIsShort(t *testing.T) {
	none := source{known: func(string) []host.Attribute {
		return []host.Attribute{{Name: strings.Repeat("n", 1000), Kind: host.BoolAttribute}}
	}}
	for _, text := range []string{strings.Repeat("n", 1000) + "=" + strings.Repeat("\xff", 1000), strings.Repeat("\xff", 1000), strings.Repeat("n", 1000) + "!"} {
		_, err := find(none, host.ListQuery{Type: "t", Where: []string{text}})
		if host.CodeOf(err) != host.InvalidArgument || len(err.Error()) > 1200 {
			t.Errorf("%d bytes: %v", len(err.Error()), err)
		}
	}
	unknown := func(string) (host.AttributeKind, bool, error) { return 0, false, nil }
	_, err := parseCondition(strings.Repeat("n", 1000)+"=1", unknown)
	e := (*host.Error)(nil)
	errorIf(t, !errors.As(err, &e) || len(e.Metadata["attribute"]) != 100, "the name of an unknown attribute: %v", err)
}
