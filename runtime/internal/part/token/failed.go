package token

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/rate"
)

// The bounds of failed checks.
const (
	failuresPerSecond = 10  // of the tokens of an actor
	failuresAtOnce    = 100 // of them
	buckets           = 1 << 12
	knownFor          = time.Second // a list of tokens stands in for their rows
	maxListedActors   = 1_024       // whose tokens are listed
	maxListedTokens   = 50_000      // of all of them
)

// failed bounds how often checks of the tokens of an actor fail.
//
//  1. A check of a valid token is never counted and never refused, for any number of failed checks.
//     Only a token that was made less than knownFor ago may have to be shown again.
//  2. While too many checks of an actor fail, a token that is not valid costs no read: the tokens
//     of the actor are listed once in knownFor, and a token that the list lacks is refused. Others
//     are read from their rows, as always.
//  3. The memory is bounded. Actors share buckets, which only changes the answer for tokens that
//     are not valid. Beyond the bounds of the lists each check reads a row.
type failed struct {
	seed maphash.Seed
	rate *rate.Limit

	mu    sync.Mutex
	lists map[string]*tokens // by the address of the actor
	size  int                // tokens in all lists
}

// tokens are the tokens of an actor that were valid not long ago.
type tokens struct {
	digests map[string]token.Digest // by id
	listed  time.Time
	busy    bool // they are being listed
}

func (l *tokens) fresh() bool { return !l.listed.IsZero() && time.Since(l.listed) < knownFor }

func newFailed() *failed {
	return &failed{seed: maphash.MakeSeed(), rate: rate.New(failuresPerSecond, failuresAtOnce),
		lists: make(map[string]*tokens)}
}

// bucket returns the key of an actor's bucket.
func (f *failed) bucket(addr []byte) []byte {
	return binary.BigEndian.AppendUint16(nil, uint16(maphash.Bytes(f.seed, addr)%buckets))
}

// refused is the error for a token of an actor that was shown too many invalid tokens.
func (f *failed) refused(wait time.Duration) *host.Error {
	return fault.Overloaded(failuresAtOnce, max(wait, knownFor),
		"too many tokens were shown that are not valid for this actor: it takes %s per second, and %d at once",
		f.rate.PerSecond(), failuresAtOnce)
}

// note counts a failed check, and returns its error.
func (f *failed) note(addr []byte) *host.Error {
	if wait, ok := f.rate.Take(f.bucket(addr)); !ok {
		return f.refused(wait)
	}
	return token.ErrInvalid
}

// before returns an error for a token that need not be read, because too many checks have failed
// and the list lacks it.
func (f *failed) before(ctx context.Context, c *check, addr []byte) error {
	wait := f.rate.Wait(f.bucket(addr))
	if wait == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.list(addr)
	if l == nil {
		return nil
	}
	if !l.fresh() {
		if l.busy {
			return nil
		}
		began := time.Now() // a token that is made while they are listed may be missing
		digests, err := f.unlocked(ctx, c, l)
		if err != nil {
			return nil // the row is read, with the same error
		}
		f.size += len(digests) - len(l.digests)
		l.digests, l.listed = digests, began
	}
	if digest, there := l.digests[c.id]; there && subtle.ConstantTimeCompare(digest[:], c.digest[:]) == 1 {
		return nil
	}
	return f.refused(wait)
}

// unlocked lists the tokens of an actor. Others do not wait for it. REQUIRES: mu
func (f *failed) unlocked(ctx context.Context, c *check, l *tokens) (map[string]token.Digest, error) {
	l.busy = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		l.busy = false
	}()
	return c.list(ctx)
}

// list returns the list of an actor; nil if there are too many. REQUIRES: mu
func (f *failed) list(addr []byte) *tokens {
	l := f.lists[string(addr)]
	if l != nil && (l.busy || l.fresh()) {
		return l
	}
	full := func() bool { return len(f.lists) >= maxListedActors || f.size >= maxListedTokens }
	if full() {
		for key, l := range f.lists {
			if !l.busy && !l.fresh() {
				f.size -= len(l.digests)
				delete(f.lists, key)
			}
		}
		if full() {
			return nil
		}
		l = nil
	}
	if l == nil {
		l = new(tokens)
		f.lists[string(addr)] = l
	}
	return l
}

// list returns the digests of the tokens of the actor that are valid. An actor that is not there
// has none.
func (c *check) list(ctx context.Context) (map[string]token.Digest, error) {
	digests := make(map[string]token.Digest)
	err := c.look(ctx, func(rows engine.Reader, now time.Time) error {
		return each(rows, func(id string, r *row) error {
			if r.valid(now) && len(r.Digest) == len(token.Digest{}) {
				digests[id] = token.Digest(r.Digest)
			}
			return nil
		})
	})
	if err == token.ErrInvalid {
		err = nil
	}
	return digests, err
}
