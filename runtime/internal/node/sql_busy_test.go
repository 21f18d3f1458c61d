package node

import (
	"maps"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A turn that changes more pages of its database than the journal keeps is refused in the middle of its commit, because another
// turn has taken the node's memory for writes. It gets the error that any other write gets, and leaves nothing.
func TestCommitOfSQLThatIsRefusedAsOverloadedSaysSo(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.TurnBytes = 6 << 20 }, &puppetType{name: "p", limits: host.Limits{ValueBytes: 6 << 20}})
	g.writeBytes = 6 << 20
	g.restart()
	const rewrite = "UPDATE note SET body = hex(randomblob(1500))"
	g.must("a", func(_ *puppet, h host.Turn) error {
		if err := exec(h, "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
			return err
		}
		return exec(h, "INSERT INTO note (body) SELECT hex(randomblob(1500)) FROM generate_series(1, 900)")
	})
	before := g.notes("a")
	var busy, plain error
	g.must("b", func(_ *puppet, h host.Turn) error {
		if err := h.KVPut([]byte("k"), make([]byte, 4<<20), time.Time{}); err != nil {
			return err
		}
		busy = g.do("a", func(_ *puppet, h host.Turn) error { return exec(h, rewrite) })
		plain = g.do("c", func(_ *puppet, h host.Turn) error { return h.KVPut([]byte("k"), make([]byte, 3<<20), time.Time{}) })
		return nil
	})
	got, want := wantCode(t, busy, host.Overloaded), wantCode(t, plain, host.Overloaded)
	if got.Message != want.Message || !got.Retryable || !maps.Equal(got.Metadata, want.Metadata) {
		t.Errorf("SQL is refused with %v %v, another write with %v %v", got, got.Metadata, want, want.Metadata)
	}
	g.wantNotes("a", before...)
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, rewrite) })
	g.check("a")
}
