package kv

import (
	"context"
	"iter"
	"time"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// At returns the store as of a version, such as that of an [Entry] or a [Result]. Past entries are
// kept in scopes with [Policy].KeepVersions or KeepFor, and at pinned versions. Otherwise the error
// code is FailedPrecondition, with the metadata "reason" history_trimmed and, if there is one,
// "earliest", the earliest known version.
func (l line) At(version uint64) Reader {
	return Reader{site: l.of.site, moment: hostkv.Moment{Branch: l.of.moment.Branch, At: version}}
}

// AtTime is At for the last version that was committed by a time, to the millisecond. Times of
// commits are in the order of their versions, even if the clock was set back.
func (l line) AtTime(t time.Time) Reader {
	if t.Before(time.UnixMilli(0)) {
		t = time.UnixMilli(0)
	}
	return Reader{site: l.of.site, moment: hostkv.Moment{Branch: l.of.moment.Branch, Time: &t}}
}

// A Snapshot reads the store as it was when it was pinned. Made by [Store.Pin].
type Snapshot struct {
	Reader
	// Version is the version of the store, for [Store.At]. It can be read until Expires.
	Version uint64
	Expires time.Time
}

// Pin keeps the present store readable for a time, 1 ms to a day; 0 is a minute. It is a commit,
// and creates a missing actor if the type has OpenKV. An actor has up to 100 pins.
func (s Store) Pin(ctx context.Context, ttl time.Duration) (Snapshot, error) {
	out, err := site.Ask(ctx, &s.site, method.KVPin, &hostkv.PinInput{TTLMS: site.Millis(ttl)})
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{s.At(out.Version), out.Version, out.Expires}, nil
}

// Release ends the snapshot before it expires.
func (s Snapshot) Release(ctx context.Context) error {
	_, err := site.Ask(ctx, &s.site, method.KVUnpin, &hostkv.UnpinInput{Version: s.Version})
	return err
}

// A Version is the state of an entry from one commit until the commit of its next version.
type Version struct {
	Version uint64
	// Op is "put", or "delete" or "expire" if the entry was removed.
	Op   string
	Time time.Time
	// Value is the value of a put, and Expires when it expires; zero for never.
	Value   Value
	Expires time.Time
}

// History ranges over the kept versions of an entry, from the newest to the oldest. An error ends
// the loop.
func (l line) History(ctx context.Context, key Key) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for in := (hostkv.HistoryInput{Branch: l.of.moment.Branch, Key: key}); ; {
			out, err := site.Ask(ctx, &l.of.site, method.KVHistory, &in)
			if err != nil {
				yield(Version{}, err)
				return
			}
			for _, v := range out.Versions {
				shown := Version{Version: v.Version, Op: v.Op, Time: v.Time}
				if v.Expires != nil {
					shown.Expires = *v.Expires
				}
				if v.Op == "put" {
					shown.Value, err = valueOf(v.Value, v.Encoding)
				}
				if !yield(shown, err) || err != nil {
					return
				}
			}
			if in.Before = out.Next; in.Before == 0 {
				return
			}
		}
	}
}
