package standing

import (
	"math/rand/v2"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func TestEachKindIsKnownForItself(t *testing.T) {
	var s Set
	want := make(map[keyspace.WakeKind]State)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		kind, is := keyspace.WakeKind(rnd.IntN(Kinds)), State(rnd.IntN(3))
		s.Note(kind, is)
		want[kind] = is
		for k := range keyspace.WakeKind(Kinds) {
			if s.Of(k) != want[k] {
				t.Fatalf("kind %d is %d, want %d", k, s.Of(k), want[k])
			}
		}
	}
}
