package token

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host/token"
)

// TestFailedChecksOfManyActorsTakeBoundedMemory counts failures of more actors than there are
// buckets and lists.
func TestFailedChecksOfManyActorsTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailed()
		listed := func(actors, tokensEach int) (n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for i := range actors {
				l := f.list(strconv.AppendInt(nil, int64(i), 10))
				if l == nil {
					continue
				}
				n++
				l.listed, l.digests = time.Now(), make(map[string]token.Digest)
				for id := range tokensEach {
					l.digests[strconv.Itoa(id)] = token.Digest{}
				}
				f.size += tokensEach
			}
			return n
		}
		for i := range 100_000 {
			f.note(strconv.AppendInt(nil, int64(i), 10))
		}
		if n := f.rate.Len(); n > buckets {
			t.Errorf("there are %d buckets", n)
		}
		if n := listed(5_000, 1); n != maxListedActors {
			t.Errorf("%d actors are listed, want %d", n, maxListedActors)
		}
		time.Sleep(knownFor)
		if n, want := listed(5_000, 1_000), maxListedTokens/1_000; n < want || n > want+1 || f.size > maxListedTokens+1_000 {
			t.Errorf("%d actors with %d tokens are listed", n, f.size)
		}
		time.Sleep(knownFor)
		if n := listed(1, 0); n != 1 {
			t.Error("none is listed later")
		}
	})
}
