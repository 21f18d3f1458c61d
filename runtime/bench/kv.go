package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// The actor under test of the rows about the key-value store. It has no state.
type shelf struct{}

var (
	shelves = actor.NewType[shelf]("shelf")
	place   = actor.NewAction[int, actor.None](shelves, "place")
	revise  = actor.NewAction[int, actor.None](shelves, "revise")
	keep    = actor.NewAction[keeping, actor.None](shelves, "keep")
	fetch   = actor.NewQuery[fetching, int](shelves, "fetch")
	nothing = actor.NewQuery[actor.None, int](shelves, "nothing")
	walk    = actor.NewQuery[walking, int](shelves, "walk")
	fill    = actor.NewAction[filling, actor.None](shelves, "fill")
	books   = actor.NewMap[int64, string](shelves, "books", actor.MapConfig{})
	shelve  = actor.NewAction[filling, actor.None](shelves, "shelve")
	leaf    = actor.NewQuery[walking, int](shelves, "leaf")
)

// A fetching asks a query to read entries, from a number on.
type fetching struct{ From, N, Of int }

// A filling asks an action to put entries, from a number on.
type filling struct {
	From, N int
	TTL     time.Duration
}

// A walking asks a query to list all entries, which stay valid or are borrowed.
type walking struct{ Borrow bool }

func (w walking) options() []actor.ListOption {
	if w.Borrow {
		return []actor.ListOption{actor.Borrowed()}
	}
	return nil
}

var shelfValue = make([]byte, 100)

func shelfKey(i int) tuple.Tuple { return tuple.Tuple{"k", int64(i)} }

func (*shelf) place(ctx *actor.Context, i int) (none actor.None, err error) {
	return none, ctx.KV().Put(shelfKey(i), shelfValue)
}

// revise is place in an update, which could be undone.
func (*shelf) revise(ctx *actor.Context, i int) (none actor.None, err error) {
	return none, ctx.KV().Update(func(tx actor.KV) error { return tx.Put(shelfKey(i), shelfValue) })
}

// A keeping is an entry that an action is given, as a put is.
type keeping struct {
	Key   int
	Value []byte
}

func (*shelf) keep(ctx *actor.Context, in keeping) (none actor.None, err error) {
	return none, ctx.KV().Put(shelfKey(in.Key), in.Value)
}

func (*shelf) fill(ctx *actor.Context, in filling) (none actor.None, err error) {
	var opts []actor.PutOption
	if in.TTL > 0 {
		opts = append(opts, actor.TTL(in.TTL))
	}
	for i := range in.N {
		if err := ctx.KV().Put(shelfKey(in.From+i), shelfValue, opts...); err != nil {
			return none, err
		}
	}
	return none, nil
}

func (shelf) fetch(ctx *actor.ReadContext, in fetching) (size int, err error) {
	for i := range in.N {
		v, _, err := ctx.KV().Get(shelfKey((in.From + i) % in.Of))
		if err != nil {
			return 0, err
		}
		size += len(v)
	}
	return size, nil
}

func (shelf) nothing(*actor.ReadContext, actor.None) (int, error) { return 1, nil }

// walk counts the entries that have a value and a version.
func (shelf) walk(ctx *actor.ReadContext, in walking) (n int, err error) {
	for e, err := range ctx.KV().List(nil, in.options()...) {
		if err != nil {
			return 0, err
		}
		n += min(1, len(e.Value)) * min(1, int(e.Version))
	}
	return n, nil
}

func (*shelf) shelve(ctx *actor.Context, in filling) (none actor.None, err error) {
	for i := range in.N {
		if err := books.Put(ctx, int64(in.From+i), string(shelfValue)); err != nil {
			return none, err
		}
	}
	return none, nil
}

// leaf is walk for a typed map.
func (shelf) leaf(ctx *actor.ReadContext, _ walking) (n int, err error) {
	for e, err := range books.All(ctx) {
		if err != nil {
			return 0, err
		}
		n += min(1, len(e.Value)) * min(1, int(e.Version))
	}
	return n, nil
}

func kvRows() []row {
	put := func(i int) kv.Commit {
		return kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"k", int64(i)}, kv.Bytes(shelfValue))}}
	}
	ten := kv.Commit{}
	for i := range 10 {
		ten.Mutations = append(ten.Mutations, kv.Put(kv.Key{"k", int64(i)}, kv.Bytes(shelfValue)))
	}
	return []row{
		{name: "KV: durable put, one caller, p50 / one raw synced batch of the same rows",
			target: "at most 1.5", latency: true,
			ours: func(b *bench) float64 { return b.shelfP50(0, func(s kv.Store, i int) { commitTo(s, put(i%1000)) }) }, raw: (*bench).rawPutAlone},
		{name: "KV: durable puts, 64 callers, one actor / raw pipelined, depth 64", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.shelfPuts(put) }, raw: (*bench).rawPuts},
		{name: "KV: durable puts, 64 callers / an action that writes the entry it is given", target: "at least 0.95",
			ours: func(b *bench) float64 { return b.shelfPuts(put) }, raw: (*bench).shelfKeeps,
			more: []twin{{"an action that makes the entry itself", func(b *bench) float64 { return b.shelfActions(place) }}}},
		{name: "KV: an action that puts in an Update, 64 callers / one that puts", target: "at least 0.9",
			ours: func(b *bench) float64 { return b.shelfActions(revise) }, raw: func(b *bench) float64 { return b.shelfActions(place) }},
		{name: "KV: ctx.KV().Get of 100 keys again and again, one core / raw Get from Pebble's cache", target: "at least 1.5 and 1,000,000/s",
			ours: func(b *bench) float64 { return b.shelfGets(100) }, raw: func(b *bench) float64 { return b.rawGets(100) }},
		{name: "KV: ctx.KV().Get of 100,000 keys, one core / raw Get from Pebble's cache", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.shelfGets(100_000) }, raw: func(b *bench) float64 { return b.rawGets(100_000) }},
		{name: "KV: kv.get in process, one core / a query that reads nothing", target: "at least 0.7",
			ours: (*bench).shelfGetCalls, raw: (*bench).shelfQueries},
		{name: "KV: list 100,000 entries, borrowed / raw iterator", target: "at least 0.5",
			ours: func(b *bench) float64 { return b.shelfWalks(fill, walk, walking{Borrow: true}) }, raw: func(b *bench) float64 { return b.rawWalks(borrow) }},
		{name: "KV: list 100,000 entries, which stay valid / raw iterator that keeps them",
			ours: func(b *bench) float64 { return b.shelfWalks(fill, walk, walking{}) }, raw: func(b *bench) float64 { return b.rawWalks(bytes.Clone) },
			more: []twin{{"raw iterator", func(b *bench) float64 { return b.rawWalks(borrow) }}}},
		// a map uses the memory of its pages again
		{name: "KV: list 100,000 entries of a typed map / of the raw store, borrowed",
			ours: func(b *bench) float64 { return b.shelfWalks(shelve, leaf, walking{}) }, raw: func(b *bench) float64 { return b.shelfWalks(fill, walk, walking{Borrow: true}) }},
		{name: "KV: commit of 10 mutations, p50 / of one", target: "at most 1.5", latency: true,
			ours: func(b *bench) float64 { return b.shelfP50(0, func(s kv.Store, _ int) { commitTo(s, ten) }) },
			raw:  func(b *bench) float64 { return b.shelfP50(0, func(s kv.Store, i int) { commitTo(s, put(i%1000)) }) }},
		{name: "KV: count of a scope of 1,000,000, p50 / of 1,000", target: "at most 1.2", latency: true,
			ours: func(b *bench) float64 { return b.shelfCount(1_000_000) }, raw: func(b *bench) float64 { return b.shelfCount(1_000) }},
		{name: "KV: fork of 1,000,000 entries, p50 / of 1,000", target: "at most 1.2", latency: true,
			ours: func(b *bench) float64 { return b.shelfForks(1_000_000) }, raw: func(b *bench) float64 { return b.shelfForks(1_000) }},
		{name: "KV: processor time in 10 s with 1,000 idle watchers of a key each / without",
			target: "no more", latency: true, long: true,
			ours: func(b *bench) float64 { return b.idleWatchers(1_000) }, raw: func(b *bench) float64 { return b.idleWatchers(0) }},
		{name: "KV: the longest wait of a call while 1,000,000 entries expire / while none do",
			target: "at most 10 ms longer", latency: true, long: true,
			ours: func(b *bench) float64 { return b.expiring(30 * time.Second) }, raw: func(b *bench) float64 { return b.expiring(time.Hour) }},
	}
}

func commitTo(s kv.Store, c kv.Commit) {
	_, err := s.Commit(context.Background(), c)
	check(err)
}

// shelf runs f with an actor that has entries.
func (b *bench) shelf(entries int, ttl time.Duration, f func(actor.Ref[shelf])) {
	b.shelfIn("", func(ref actor.Ref[shelf]) {
		fillWith(fill, ref, entries, ttl)
		f(ref)
	})
}

func fillWith(put *actor.Action[shelf, filling, actor.None], ref actor.Ref[shelf], entries int, ttl time.Duration) {
	for i := 0; i < entries; i += filled {
		_, err := put.Call(context.Background(), ref, filling{i, min(filled, entries-i), ttl})
		check(err)
	}
}

// shelfAtRest runs f with an actor whose entries lie in tables, as what was written some time ago
// does.
func (b *bench) shelfAtRest(entries int, put *actor.Action[shelf, filling, actor.None], f func(actor.Ref[shelf])) {
	dir, err := os.MkdirTemp(b.dir, "node-")
	check(err)
	defer os.RemoveAll(dir)
	b.shelfIn(dir, func(ref actor.Ref[shelf]) { fillWith(put, ref, entries, 0) })
	dataDir := filepath.Join(dir, "store")
	_, err = os.Stat(dataDir)
	check(err)
	store, err := engine.Open(context.Background(), engine.Options{Dir: dataDir, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	check(store.Compact(context.Background()))
	check(store.Close())
	b.shelfIn(dir, f)
}

// shelfIn runs f with an actor of a node in a directory; "" is an empty one.
func (b *bench) shelfIn(dir string, f func(actor.Ref[shelf])) {
	definition := actor.Define(shelves, actor.Spec[shelf]{OpenKV: true},
		actor.On(place, (*shelf).place), actor.On(revise, (*shelf).revise), actor.On(keep, (*shelf).keep), actor.On(fill, (*shelf).fill),
		actor.OnQuery(fetch, shelf.fetch), actor.OnQuery(nothing, shelf.nothing), actor.OnQuery(walk, shelf.walk),
		actor.On(shelve, (*shelf).shelve), actor.OnQuery(leaf, shelf.leaf))
	b.node(runtime.Options{Dir: dir, Actors: []actor.Definition{definition}},
		func(rt *runtime.Runtime) { f(shelves.Ref(rt, "one")) })
}

func (b *bench) shelfP50(entries int, op func(kv.Store, int)) (v float64) {
	b.shelf(entries, 0, func(ref actor.Ref[shelf]) {
		v = b.p50(func(i int) { op(ref.KV(), i) })
	})
	return v
}

func (b *bench) shelfPuts(put func(int) kv.Commit) (v float64) {
	b.shelf(0, 0, func(ref actor.Ref[shelf]) {
		v = b.load(64, func(w, i int) { commitTo(ref.KV(), put((w+i*64)%1000)) })
	})
	return v
}

func (b *bench) shelfKeeps() float64 {
	return b.shelfActs(func(ref actor.Ref[shelf], i int) error {
		_, err := keep.Call(context.Background(), ref, keeping{i, shelfValue})
		return err
	})
}

func (b *bench) shelfActions(put *actor.Action[shelf, int, actor.None]) float64 {
	return b.shelfActs(func(ref actor.Ref[shelf], i int) error {
		_, err := put.Call(context.Background(), ref, i)
		return err
	})
}

func (b *bench) shelfActs(act func(ref actor.Ref[shelf], i int) error) (v float64) {
	b.shelf(0, 0, func(ref actor.Ref[shelf]) {
		v = b.load(64, func(w, i int) { check(act(ref, (w+i*64)%1000)) })
	})
	return v
}

func (b *bench) shelfGets(of int) (v float64) {
	const at = 1000
	b.shelfAtRest(of, fill, func(ref actor.Ref[shelf]) {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
		ask := func(i int) {
			_, err := fetch.Call(context.Background(), ref, fetching{i * at * 7, at, of})
			check(err)
		}
		ask(0)
		v = at * b.load(1, func(_, i int) { ask(i) })
	})
	return v
}

func (b *bench) shelfGetCalls() (v float64) {
	b.shelf(1000, 0, func(ref actor.Ref[shelf]) {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
		v = b.load(1, func(_, i int) {
			_, _, err := ref.KV().Get(context.Background(), kv.Key{"k", int64(i % 1000)})
			check(err)
		})
	})
	return v
}

func (b *bench) shelfQueries() (v float64) {
	b.shelf(1000, 0, func(ref actor.Ref[shelf]) {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
		v = b.load(1, func(int, int) {
			_, err := nothing.Call(context.Background(), ref, actor.None{})
			check(err)
		})
	})
	return v
}

const walked = 100_000

func (b *bench) shelfWalks(put *actor.Action[shelf, filling, actor.None],
	list *actor.Query[shelf, walking, int], in walking) (v float64) {
	b.shelfAtRest(walked, put, func(ref actor.Ref[shelf]) {
		v = walked * b.load(1, func(int, int) {
			n, err := list.Call(context.Background(), ref, in)
			check(err)
			if n != walked {
				panic(fmt.Sprint(n, " entries"))
			}
		})
	})
	return v
}

func (b *bench) shelfCount(entries int) (v float64) {
	b.shelf(entries, 0, func(ref actor.Ref[shelf]) {
		ctx, s := context.Background(), ref.KV()
		_, err := s.SetScope(ctx, kv.Key{"k"}, kv.Policy{})
		check(err)
		v = b.p50(func(int) {
			n, err := s.Count(ctx, kv.Selection{Prefix: kv.Key{"k"}})
			check(err)
			if n != int64(entries) {
				panic(fmt.Sprint(n, " entries"))
			}
		})
	})
	return v
}

// shelfForks measures a fork. The branch is removed again, which is not measured.
func (b *bench) shelfForks(entries int) (v float64) {
	b.shelf(entries, 0, func(ref actor.Ref[shelf]) {
		ctx, s := context.Background(), ref.KV()
		var took []float64
		for end := time.Now().Add(b.time); time.Now().Before(end); {
			began := time.Now()
			fork, err := s.Fork(ctx, fmt.Sprint(len(took)))
			took = append(took, time.Since(began).Seconds())
			check(err)
			_, err = fork.Remove(ctx)
			check(err)
		}
		slices.Sort(took)
		v = took[len(took)/2]
	})
	return v
}

// expiring returns the longest wait of a call, from 30 seconds after 1,000,000 entries were begun
// to be written. They expire then, or much later. The calls end when all are gone, and at the
// earliest after 20 seconds.
func (b *bench) expiring(ttl time.Duration) (longest float64) {
	const entries, settle = 1_000_000, 30 * time.Second
	b.shelf(1, 0, func(ref actor.Ref[shelf]) {
		ctx, s := context.Background(), ref.KV()
		_, err := s.SetScope(ctx, kv.Key{"k"}, kv.Policy{})
		check(err)
		begin := time.Now()
		for i := 0; i < entries; i += 10_000 {
			_, err := fill.Call(ctx, ref, filling{1 + i, 10_000, ttl - time.Since(begin)})
			check(err)
		}
		time.Sleep(settle - time.Since(begin))
		for round, left := 0, int64(2); round < 20 || ttl == settle && left > 1; round++ {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				t := time.Now()
				_, err := place.Call(ctx, ref, 0)
				check(err)
				longest = max(longest, time.Since(t).Seconds())
			}
			left, err = s.Count(ctx, kv.Selection{Prefix: kv.Key{"k"}})
			check(err)
		}
	})
	return longest
}

// idleWatchers returns the processor time of 10 seconds in which nothing happens but that watchers
// wait.
func (b *bench) idleWatchers(watchers int) (spent float64) {
	b.shelf(watchers, 0, func(ref actor.Ref[shelf]) {
		ctx, stop := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		for i := range watchers {
			waiting.Go(func() {
				for range ref.KV().Watch(ctx, kv.WatchConfig{Keys: []kv.Key{{"k", int64(i)}}}) {
				}
			})
		}
		time.Sleep(12 * time.Second) // what is written and collected in the background is over
		before := usage.Processor()
		time.Sleep(10 * time.Second)
		spent = usage.Processor() - before
		stop()
		waiting.Wait()
	})
	return spent
}

// rawShelf has the rows of a put: what is known of the actor, and the entry.
func rawShelf(i int) (root, entry []byte) {
	r := rowsFor(1)
	packed, err := shelfKey(i).Pack()
	check(err)
	var random [10]byte
	random[9] = 1
	id := keyspace.NewActorID(uint16(7%keyspace.Slots), 1, random)
	return r.root, keyspace.AppendMetadataRow(nil, id, keyspace.UserKV.Append(nil, packed))
}

var (
	shelfRoot = make([]byte, 37)
	shelfRow  = make([]byte, 100+16) // what is known of the value, and the value
)

func rawPut(db *pebble.DB, i int) *pebble.Batch {
	root, entry := rawShelf(i)
	batch := db.NewBatch()
	check(batch.Set(root, shelfRoot, nil))
	check(batch.Set(entry, shelfRow, nil))
	return batch
}

func (b *bench) rawPutAlone() (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		v = b.p50(func(i int) {
			batch := rawPut(db, i%1000)
			check(batch.Commit(pebble.Sync))
			batch.Close()
		})
	})
	return v
}

func (b *bench) rawPuts() (v float64) {
	b.pebbleDB(func(db *pebble.DB) {
		waiting := make(chan *pebble.Batch, 64)
		var wg sync.WaitGroup
		wg.Go(func() {
			for batch := range waiting {
				check(batch.SyncWait())
				batch.Close()
			}
		})
		v = b.load(1, func(_, i int) {
			batch := rawPut(db, i%1000)
			check(db.ApplyNoSyncWait(batch, pebble.Sync))
			waiting <- batch
		})
		close(waiting)
		wg.Wait()
	})
	return v
}

// filled is how many entries a commit that fills a store has. Pebble keeps one of 100,000 in
// another structure than its memtable.
const filled = 10_000

// rawFilled runs f with a database that has entries in tables.
func (b *bench) rawFilled(entries int, f func(*pebble.DB)) {
	b.pebbleDB(func(db *pebble.DB) {
		for i := 0; i < entries; i += filled {
			batch := db.NewBatch()
			for j := i; j < min(i+filled, entries); j++ {
				_, entry := rawShelf(j)
				check(batch.Set(entry, shelfRow, nil))
			}
			check(batch.Commit(pebble.Sync))
			check(batch.Close())
		}
		check(db.Flush())
		check(db.Compact(context.Background(), nil, []byte{0xFF}, false))
		f(db)
	})
}

func (b *bench) rawGets(of int) (v float64) {
	const at = 1000
	b.rawFilled(of, func(db *pebble.DB) {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
		v = at * b.load(1, func(_, i int) {
			for j := range at {
				_, entry := rawShelf((i*at*7 + j) % of)
				_, closer, err := db.Get(entry)
				check(err)
				check(closer.Close())
			}
		})
	})
	return v
}

// borrow keeps nothing of what an iterator returns.
func borrow(b []byte) []byte { return b }

// rawWalks reads all, and keeps what it reads in one way or another.
func (b *bench) rawWalks(keep func([]byte) []byte) (v float64) {
	b.rawFilled(walked, func(db *pebble.DB) {
		v = walked * b.load(1, func(int, int) {
			it, err := db.NewIter(nil)
			check(err)
			n := 0
			for ok := it.First(); ok; ok = it.Next() {
				n += min(1, len(keep(it.Key()))+len(keep(it.Value())))
			}
			check(it.Close())
			if n != walked {
				panic(fmt.Sprint(n, " entries"))
			}
		})
	})
	return v
}
