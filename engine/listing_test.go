package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// listingStore makes a store of n actors of type t. Their attribute "n" is their number divided by
// three, even ones have a "plan", and each has a value of 100 bytes times its number.
func listingStore(t testing.TB, n int) *Store {
	t.Helper()
	s := openTest(t, Options{})
	for i := range n {
		sp := openSpace(t, s, i)
		w := sp.Writes()
		w.Advance(int64(i) * 60_000)
		must(t, w.Create(Identity{"ns", "t", []string{fmt.Sprintf("%03d", i)}}))
		must(t, w.Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, int64(i/3)), PutOptions{}))
		if i%2 == 0 {
			must(t, w.Put(keyspace.Attribute.Append(nil, "plan"), tuple.AppendString(nil, "pro"), PutOptions{}))
		}
		must(t, w.Put(kv("value"), make([]byte, i*100), PutOptions{}))
		commit(t, sp)
	}
	return s
}

func find(t testing.TB, s *Store, q FindQuery) string {
	t.Helper()
	q.Namespace, q.Type = "ns", "t"
	var keys []string
	must(t, s.Find(q, func(f *Found) (bool, error) {
		keys = append(keys, strings.Join(f.Key, "/"))
		return true, nil
	}))
	return strings.Join(keys, " ")
}

func TestActorsAreFoundInTheOrderOfAField(t *testing.T) {
	s := listingStore(t, 12)
	size, updated := tuple.AppendUint(nil, uint64(keyspace.ListingSize)), tuple.AppendUint(nil, uint64(keyspace.ListingUpdated))
	n, plan, pro := tuple.AppendString(nil, "n"), tuple.AppendString(nil, "plan"), tuple.AppendString(nil, "pro")
	for _, c := range []struct {
		q    FindQuery
		want string
	}{
		{FindQuery{Reverse: true, Prefix: []string{"007"}}, "007"},
		{FindQuery{Field: size, From: tuple.AppendInt(nil, 896)}, "009 010 011"},
		{FindQuery{Field: updated, From: tuple.AppendInt(nil, 60_000), To: tuple.AppendInt(nil, 180_000), Reverse: true}, "002 001"},
		{FindQuery{Field: n, From: tuple.AppendInt(nil, 2)}, "006 007 008 009 010 011"},
		{FindQuery{Field: n, Value: tuple.AppendInt(nil, 1)}, "003 004 005"},
		{FindQuery{Field: n, Value: tuple.AppendInt(nil, 1), Prefix: []string{"004"}}, "004"},
		{FindQuery{Field: plan, Value: pro, Reverse: true}, "010 008 006 004 002 000"},
		{FindQuery{Field: tuple.AppendString(nil, "none")}, ""},
		{FindQuery{Field: n, From: tuple.AppendInt(nil, 2), To: tuple.AppendInt(nil, 1)}, ""},
	} {
		same(t, find(t, s, c.q), c.want, c.q)
	}
	var pages []string // each continues after the last
	q := FindQuery{Namespace: "ns", Type: "t", Field: n}
	for more := true; more && len(pages) < 20; {
		more = false
		must(t, s.Find(q, func(f *Found) (bool, error) {
			head, err := f.Head()
			must(t, err)
			value, ok, err := f.Get(kv("value"))
			fatalIf(t, err != nil || !ok || head.Bytes < int64(len(value)), "%v: %d bytes, %v %v", f.Key, head.Bytes, ok, err)
			pages, q.After = append(pages, f.Key[0]), clone(f.Row)
			more = len(pages)%5 == 0
			return !more, nil
		}))
	}
	same(t, strings.Join(pages, " "), find(t, s, FindQuery{}))
	wantErr(t, s.Find(FindQuery{Namespace: "ns", Type: "t", Field: n, After: []byte("x")}, nil), ErrCursor)
}

// TestQueriesOfTypesAreMerged compares pages of merged queries with a sort of all their actors.
func TestQueriesOfTypesAreMerged(t *testing.T) {
	s := openTest(t, Options{})
	n := tuple.AppendString(nil, "n")
	value := func(i int64) []byte { return tuple.AppendInt(nil, i) }
	for i := range 60 {
		sp := openSpace(t, s, i)
		typ := string("abc"[i%3])
		if typ != "b" || i > 30 { // b has none of the low values
			put(t, sp.Writes(), keyspace.Attribute.Append(nil, "n"), string(value(int64(i/7))))
		}
		create(t, sp, typ, fmt.Sprintf("%02d", i))
	}
	for name, q := range map[string]FindQuery{
		"whole": {Field: n}, "range": {Field: n, From: value(2), To: value(6)}, "one value": {Field: n, Value: value(5)},
		"prefix": {Field: n, Value: value(5), Prefix: []string{"38"}}, "keys": {},
	} {
		var whole []string
		for _, reverse := range []bool{false, true} {
			var queries []FindQuery
			for _, typ := range []string{"a", "b", "c", "none"} {
				q.Namespace, q.Type, q.Reverse = "ns", typ, reverse
				queries = append(queries, q)
			}
			for _, size := range []int{100, 1, 2, 7} {
				var all []string
				var after []byte
				for more := true; more; {
					seen := 0
					must(t, s.FindMerged(queries, after, func(i int, f *Found) (bool, error) {
						seen++
						all, after = append(all, fmt.Sprintf("%x %s %s", f.Value, queries[i].Type, f.Key[0])), clone(f.Row)
						return seen < size, nil
					}))
					more = seen == size
				}
				if whole == nil {
					whole = all
					fatalIf(t, len(all) == 0 || !slices.IsSorted(all), "%s: %q", name, all)
				}
				if reverse {
					slices.Reverse(all)
				}
				same(t, strings.Join(all, ","), strings.Join(whole, ","), name, reverse, size)
			}
		}
	}
	wantErr(t, s.FindMerged([]FindQuery{{Namespace: "ns", Type: "a", Field: n}, {Namespace: "ns", Type: "b", Field: n}},
		[]byte("x"), nil), ErrCursor)
	must(t, s.FindMerged(nil, nil, nil))
}

func TestADestroyedActorIsFoundNoMore(t *testing.T) {
	s := listingStore(t, 4)
	rows := checkListing(t, s)
	sp := openSpace(t, s, 2)
	must(t, sp.Writes().Destroy(keyspace.Attribute.Kind)) // a kept attribute belongs to no name
	commit(t, sp)
	putCommit(t, sp, keyspace.Attribute.Append(nil, "plan"), "\x02free\x00")
	same(t, checkListing(t, s), rows-4)

	must(t, databaseOf(s).Delete(keyspace.AppendMetadataRow(nil, testID(1), stateKey()), pebble.Sync)) // its head
	damaged, err := s.NewSpace(testID(1))
	must(t, err)
	must(t, damaged.Writes().Destroy())
	commit(t, damaged)
	same(t, checkListing(t, s), rows-4-3)
}

// TestTheIndexIsBuiltInSlices removes the index, and ends the build after each slice.
func TestTheIndexIsBuiltInSlices(t *testing.T) {
	s := listingStore(t, 3)
	for i := range 2 * listingSlice { // small ones, without an index
		sp := openSpace(t, s, i+10)
		must(t, sp.Writes().Create(Identity{"ns", "u", []string{fmt.Sprint(i)}}))
		must(t, errOf(sp.Commit(nil)))
		sp.Close()
	}
	rows := checkListing(t, s)
	must(t, s.ResetListing())
	wantErr(t, s.Find(FindQuery{Namespace: "ns", Type: "t", Field: []byte{0x15, 1}}, nil), ErrListing)
	wantErr(t, errOf(s.Storage("ns")), ErrListing)
	start, end := keyspace.Listing()
	must(t, databaseOf(s).Set(append(clone(start), "a row that is wrong"...), nil, pebble.Sync))
	builds, actors := 0, 0
	for built := false; !built; builds++ {
		ctx := &endsAfter{Context: t.Context(), left: 1}
		read, _, err := s.BuildListing(ctx)
		actors += read
		fatalIf(t, err != nil && err != context.Canceled, "%v", err)
		built, err = s.ListingBuilt()
		must(t, err)
		if !built { // commits made meanwhile are not lost
			sp := openSpace(t, s, 1)
			put(t, sp.Writes(), kv("more"), strings.Repeat("x", 5000*(builds+1)))
			putCommit(t, sp, keyspace.Attribute.Append(nil, "n"), string(tuple.AppendInt(nil, int64(builds))))
			sp.Close()
		}
	}
	fatalIf(t, builds != 3 || actors != 2*listingSlice+3, "%d builds read %d actors", builds, actors)
	same(t, checkListing(t, s), rows)
	same(t, countRows(t, s, start, end), rows)
}

// endsAfter is a context that ends after some calls of Err.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCheckFindsRowsThatAreMissingOrWrong(t *testing.T) {
	s := listingStore(t, 3)
	field := append(keyspace.AppendListing(nil, "ns", "t"), tuple.AppendString(nil, "plan")...)
	row := func(value, key string) []byte {
		return keyspace.AppendListingKey(tuple.AppendString(clone(field), value), []string{key})
	}
	must(t, databaseOf(s).Delete(row("pro", "000"), pebble.Sync))
	must(t, databaseOf(s).Set(row("pro", "001"), appendDirectory(nil, testID(1)), pebble.Sync))
	faults := func() (string, error) {
		var all []string
		_, err := s.CheckListing(t.Context(), func(row string, missing bool) { all = append(all, fmt.Sprint(row, missing)) })
		slices.Sort(all)
		return fmt.Sprint(all), err
	}
	const wrong = `listing("ns", "t", "plan", "pro", "001")false`
	returns(t, `[listing("ns", "t", "plan", "pro", "000")true `+wrong+`]`)(faults())
	// An actor whose head cannot be read hides no fault of the others.
	must(t, databaseOf(s).Set(keyspace.AppendMetadataRow(nil, testID(0), stateKey()), []byte{0xff}, pebble.Sync))
	found, err := faults()
	wantErr(t, err, &CorruptError{})
	same(t, found, "["+wrong+"]")
	must(t, s.ResetListing())
	read, unread, err := s.BuildListing(t.Context())
	fatalIf(t, read != 3 || unread != 1 || err != nil, "%d, %d, %v", read, unread, err)
	rows, err := s.CheckListing(t.Context(), func(row string, _ bool) { t.Error(row) })
	wantErr(t, err, &CorruptError{})
	same(t, rows, 3+4)
}

// TestAcceptedDamageResetsTheIndex damages a file of the store, and cuts the power before every
// change of the Open that accepts it.
func TestAcceptedDamageResetsTheIndex(t *testing.T) {
	r := newRig(t, Options{})
	create(t, r.sp, "t", "a")
	must(t, r.Close())
	r.o.AcceptDataLoss = true
	(&image{disk: r.o.Disk}).set(t, "OPTIONS-000003", []byte("x"))
	var cuts []*Disk
	stop := eachChange(r.o.Disk, func(int) { cuts = append(cuts, r.o.Disk.Crash(1, 100)) })
	r.start()
	stop()
	returns(t, false)(r.ListingBuilt())
	must(t, errOf3(r.BuildListing(t.Context())))
	same(t, checkListing(t, r.Store), 2)
	fatalIf(t, len(cuts) < 10, "%d cuts", len(cuts))
	for i, disk := range cuts {
		s := mustOpen(t, Options{Disk: disk, AcceptDataLoss: true})
		returns(t, false, "cut", i)(s.ListingBuilt())
		must(t, s.Close())
	}
}

// TestACreationThatFailedLeavesNoName fails the commit that names an actor because of an existing
// row of the actor.
func TestACreationThatFailedLeavesNoName(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.w.Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, 1), PutOptions{}))
	r.commit()
	row := keyspace.AppendMetadataRow(nil, testID(1), keyspace.Attribute.Append(nil, "n"))
	sound, closer, err := databaseOf(r.Store).Get(row)
	must(t, err)
	must(t, databaseOf(r.Store).Set(row, []byte{0xff}, pebble.Sync))
	before := r.w.Savepoint()
	must(t, r.w.Create(Identity{"ns", "t", []string{"a"}}))
	wantErr(t, errOf(r.sp.Commit(nil)), &CorruptError{})
	r.w.Rollback(before)
	must(t, errors.Join(databaseOf(r.Store).Set(row, sound, pebble.Sync), closer.Close()))
	r.put(kv("more"), strings.Repeat("x", 1000))
	same(t, checkListing(t, r.Store), 0)
}

// TestTheIndexIsNotBuiltIntoTheLastOfADisk builds it while commits are refused.
func TestTheIndexIsNotBuiltIntoTheLastOfADisk(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "x")
	must(t, r.ResetListing())
	must(t, r.Close())
	r.o.Disk.SetFree(1 << 30)
	r.o.MinFreeBytes = 1 << 40
	r.start()
	wantErr(t, errOf3(r.BuildListing(t.Context())), ErrDiskFull)
	returns(t, false)(r.ListingBuilt())
}

// TestAStoreWithoutATableOfTheAuditLogOpens removes a table that has nothing but records of the
// audit log.
func TestAStoreWithoutATableOfTheAuditLogOpens(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "x")
	must(t, databaseOf(r.Store).Flush())
	m := &image{disk: r.o.Disk}
	before := m.names(t)
	must(t, r.AppendAudit(audited("a"), []byte("lost")))
	must(t, databaseOf(r.Store).Flush())
	added := slices.DeleteFunc(m.names(t), func(name string) bool { return !isTable(name) || slices.Contains(before, name) })
	same(t, len(added), 1)
	must(t, r.Close())
	m.remove(t, added[0])
	r.o.AcceptDataLoss = true
	r.start()
	r.want(kv("a"), "x")
	if err := r.AppendAudit(audited("a"), []byte("kept")); !errors.Is(err, ErrReadOnly) { // a compaction may have missed the table
		must(t, err)
	}
}

// TestWhatIsLeftOfALogHasItsIndexAndItsAuditLog damages the log of a store at many places, and
// accepts it. The remaining actors, the index and the audit log are of one moment, and the numbers
// of records continue.
func TestWhatIsLeftOfALogHasItsIndexAndItsAuditLog(t *testing.T) {
	o := small(Options{})
	s := openTest(t, o)
	of := func(i int) Identity { return Identity{"ns", "t", []string{fmt.Sprint(i)}} }
	for i := range 30 {
		sp := openSpace(t, s, i)
		w := sp.Writes()
		w.Advance(int64(i) * 60_000)
		must(t, w.Audit(of(i), []byte("made")))
		create(t, sp, "t", fmt.Sprint(i))
		putAside(t, sp, trace("1"), "1")
		putAside(t, sp, keyspace.Usage.Append(nil, 7), "x")
		w.Advance(int64(i+40) * 60_000)
		must(t, w.Audit(of(i), []byte("set")))
		putCommit(t, sp, keyspace.Attribute.Append(nil, "n"), string(tuple.AppendInt(nil, int64(i))))
		sp.Close()
	}
	whole := &image{disk: o.Disk.Crash(1, 100)}
	must(t, s.Close())
	log := logsOf(t, whole.disk)[0]
	content, _ := contents(t, whole.disk, log)
	end := len(strings.TrimRight(string(content), "\x00"))
	cuts := 0
	for at := 100; at < end-100; at += end / 8 {
		s, _, err := whole.with(t, log, flip(at, 1)).open(t, Options{AcceptDataLoss: true})
		must(t, err)
		must(t, errOf3(s.BuildListing(t.Context())))
		rows := checkListing(t, s)
		records := strings.Join(auditOf(t, s, AuditQuery{}), " ")
		made, set := strings.Count(records, "made"), strings.Count(records, "set")
		same(t, rows, 2*made+set, "rows of the index, at", at)
		if made < 30 {
			cuts++
		}
		must(t, s.AppendAudit(of(99), []byte("later")))
		log := strings.Join(auditOf(t, s, AuditQuery{}), " ") // checks that the numbers grow
		same(t, log, strings.TrimSpace(records+" 99 later"))
		must(t, s.Close())
	}
	fatalIf(t, cuts < 3, "%d cuts lost something", cuts)
}
