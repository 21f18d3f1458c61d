package engine

import (
	"crypto/rand"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

func TestStorageIsCountedByTypeAndEstimatedByKind(t *testing.T) {
	s := openTest(t, Options{})
	queue := keyspace.QueueMessage.Append(nil, 1)
	put := func(i int, typ string, key, value []byte) {
		sp := openSpace(t, s, i)
		w := sp.Writes()
		if sp.Head().Version == 0 {
			must(t, w.Create(Identity{"ns", typ, []string{fmt.Sprint(i)}}))
		}
		must(t, w.Put(key, value, PutOptions{}))
		commit(t, sp)
	}
	const actors = 200
	for i := range actors { // as many bytes in queues as in entries, but in fewer actors
		if i%10 == 0 {
			put(i, "t", queue, make([]byte, 9_000))
		} else {
			put(i, "t", kv("a"), make([]byte, 1_000))
		}
	}
	noise := make([]byte, 512<<10) // does not compress
	for i := range 8 {
		_, err := rand.Read(noise)
		must(t, err)
		put(actors, "large", kv(fmt.Sprint(i)), noise)
	}
	must(t, databaseOf(s).Flush())
	put(actors, "large", queue, make([]byte, 1_000))

	all, err := s.Storage("ns")
	must(t, err)
	near := func(what string, got, want, off float64) {
		t.Helper()
		errorIf(t, math.Abs(got-want) > off*want, "%s: %.0f, not about %.0f", what, got, want)
	}
	large, small := all[0], all[1]
	same(t, large.Type, "large")
	same(t, small.Type, "t")
	same(t, large.Actors, int64(1))
	same(t, small.Actors, int64(actors))
	near("bytes", float64(small.Bytes), 360_000, 0.1)
	near("bytes of one", float64(large.Bytes), 4<<20, 0.1)
	near("entries of one, by its files", float64(large.Kinds[keyspace.UserKV.Kind]), 4<<20, 0.5)
	near("queue of one", float64(large.Kinds[keyspace.QueueMessage.Kind]), 1_000, 0.2)
	// Of 32 places half have queues; fewer than 3 or more than 29 have them with a probability of
	// less than one in ten million.
	for _, kind := range []keyspace.Kind{keyspace.UserKV.Kind, keyspace.QueueMessage.Kind} {
		near(kind.String(), float64(small.Kinds[kind]), 190_000, 0.95)
	}
	none, err := s.Storage("other")
	must(t, err)
	same(t, len(none), 0)
}

// A place of a sample has each actor in proportion to its weight.
func TestSampleIsFair(t *testing.T) {
	const rounds = 3_000
	taken := make(map[byte]float64)
	for range rounds {
		var s sample
		for i := range byte(4) { // weights 256, 512, 768, 1024
			if s.next(int64(i) * 256) {
				s.take(keyspace.ActorID{i})
			}
		}
		for _, p := range s.places {
			taken[p.id[0]]++
		}
	}
	for i := range byte(4) {
		got, want := taken[i]/rounds/storageSample, float64(i+1)/10
		errorIf(t, math.Abs(got-want) > 0.02, "actor %d has %.3f of the places, not %.3f", i, got, want)
	}
}

func BenchmarkStorage(b *testing.B) {
	s := listingStore(b, 1_000)
	for b.Loop() {
		_, err := s.Storage("ns")
		must(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1_000, "ns/actor")
}

func TestLatencyCountsBelowEachBound(t *testing.T) {
	var l latency
	all := []time.Duration{0, 16383, 16384, 40 * time.Microsecond, time.Millisecond, time.Hour}
	sum := time.Duration(0)
	for _, d := range all {
		l.observe(d)
		sum += d
	}
	l.observe(-1) // as if it were 0
	got := l.read()
	same(t, got.Count, uint64(len(all)+1))
	same(t, got.Sum, sum)
	for _, b := range got.Buckets {
		want := uint64(1)
		for _, d := range all {
			if d < b.Below {
				want++
			}
		}
		same(t, b.Count, want, b.Below)
	}
}
