package survey

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// maxLooked is how many actors a page looks at, so that a query that selects few ends soon.
const maxLooked = 10_000

// maxCandidates is how many actors are read from one state of the store, before the node's state of
// them is looked at.
const maxCandidates = 256

// A source has the actors of a search.
type source struct {
	store     *engine.Store
	namespace string
	// known returns the kinds of the attributes of a type.
	known func(typ string) []host.Attribute
	// state visits the keys of the actors of a type that may be in a state other than asleep, in no
	// order.
	state func(typ string, state host.State, visit func(key []string)) error
	// present adds the state to the status of an actor. After it, report adds what lists show of
	// the actor's rows.
	present, report func(st *host.Status) error
	// looked is how many actors the page has looked at.
	looked *int
	// rest: the page follows another one of the query.
	rest bool
	// after, if it is not nil, gets the cursor after each actor of the page, by its id.
	after map[string]string
}

// A candidate is an actor that meets the conditions on the store's data.
type candidate struct {
	engine.ActorEntry
	row  []byte // of the walk
	part int    // of the search
}

// A search is the state of a query. It looks at actors in one order: of their keys, of a field or
// an attribute in the index, or, with a list, of the keys of the actors in a state. A search over
// all types has the searches of the types as its parts, and looks at their actors in the order of a
// field.
type search struct {
	source
	q          host.ListQuery
	conditions []condition
	walk       engine.FindQuery
	field      string // of the walk; "" for the keys
	list       host.State
	runs       string    // the state of runs, if the walk is over the list of runs
	selection  uint64    // a digest of the selection and its order
	parts      []*search // in the order of the types
	refused    error     // for a condition or an order that no actor has now; the search finds nothing
	at         int       // the part that the walk is at
}

// invalid is the error for a member of the query.
func invalid(field, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...).With("field", field)
}

// newSearch reads a query with conditions or an order, and plans it. The caller must check whether
// the search has refused it.
func newSearch(src source, q host.ListQuery) (*search, error) {
	s := &search{source: src, q: q}
	s.parts = []*search{s}
	err := s.read()
	if fault := (*host.Error)(nil); errors.As(err, &fault) &&
		(fault.Metadata["field"] == "where" || fault.Metadata["field"] == "sort") {
		s.refused, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	return s, s.resume()
}

// read reads the conditions and the order.
func (s *search) read() error {
	for _, text := range s.q.Where {
		c, err := parseCondition(text, s.attribute)
		if err != nil {
			return err
		}
		s.conditions = append(s.conditions, c)
	}
	return s.plan()
}

// newMerged reads a query with an order over all types. Types without the attribute of the order,
// or of a condition, have no actors in it.
func newMerged(src source, q host.ListQuery, types []string) (*search, error) {
	s := &search{source: src, q: q}
	inner, typ, _ := strings.Cut(q.Cursor, ".")
	if q.Cursor != "" && (inner == "" || typ == "") {
		return nil, invalid("cursor", "the cursor is not of an earlier page over all types")
	}
	gone := -1
	for _, t := range types {
		part := q
		part.Type, part.Cursor = t, ""
		p, err := newSearch(src, part)
		if err != nil {
			return nil, err
		}
		if p.refused == nil {
			s.parts = append(s.parts, p)
		} else if s.refused = cmp.Or(s.refused, p.refused); t == typ {
			gone = len(s.parts)
		}
	}
	s.q.Cursor = inner
	if len(s.parts) == 0 {
		return s, s.resume()
	}
	s.refused = nil
	walk := s.parts[0].walk
	// all parts have these in common, apart from the kinds of attributes
	s.conditions, s.walk.Reverse = s.parts[0].conditions, walk.Reverse
	if gone >= 0 {
		// The earlier page ended with the last actor of a type that had the attribute. This part
		// has the place of the type, and no actors.
		none := engine.FindQuery{Namespace: s.namespace, Type: typ, Field: walk.Field,
			From: []byte{}, To: []byte{}, Reverse: walk.Reverse}
		s.parts = slices.Insert(s.parts, gone, &search{q: host.ListQuery{Type: typ}, walk: none})
	}
	return s, s.resume()
}

// attribute returns the kind of an attribute. For a type that the program does not have it is the
// kind of the first value in the index.
func (s *search) attribute(name string) (kind host.AttributeKind, ok bool, err error) {
	for _, a := range s.known(s.q.Type) {
		if a.Name == name {
			return a.Kind, true, nil
		}
	}
	err = s.store.Find(engine.FindQuery{Namespace: s.namespace, Type: s.q.Type,
		Field: tuple.AppendString(nil, name)}, func(f *engine.Found) (bool, error) {
		kind = ParseAttribute(f.Value).Kind
		return false, nil
	})
	return kind, kind != 0, unbuilt(err)
}

// unbuilt turns the error of a store without an index into one for operators.
func unbuilt(err error) error {
	if errors.Is(err, engine.ErrListing) {
		return host.Errorf(host.FailedPrecondition,
			"the index of actors is not built; the next start of a node with this data builds it")
	}
	return err
}

// plan chooses the walk.
func (s *search) plan() error {
	name, reverse := strings.CutPrefix(s.q.Sort, "-")
	s.walk = engine.FindQuery{Namespace: s.namespace, Type: s.q.Type, Prefix: s.q.Prefix, Reverse: reverse}
	var kind host.AttributeKind
	switch name {
	case "":
		if reverse {
			return invalid("sort", `want the name of a field or attribute after "-"`)
		}
		s.choose()
		name = s.field
		if i := slices.IndexFunc(s.conditions, func(c condition) bool { return c.field == name }); i >= 0 {
			kind = s.conditions[i].kind
		}
	case "key":
		s.chooseList()
	case "size", "updated":
		s.field = name
	case "state", "run", "created":
		return invalid("sort",
			"actors cannot be sorted by %s; they can by key, state, size, updated and attributes", name)
	default:
		var ok bool
		var err error
		if kind, ok, err = s.attribute(name); err != nil {
			return err
		}
		if !ok {
			return invalid("sort",
				"the actor type has no attribute %.100q; every actor has key, state, size and updated", strings.ToValidUTF8(name, "\uFFFD")).With("attribute", short(name))
		}
		s.field = name
	}
	s.bound(kind)
	return nil
}

// choose chooses a walk for a query without an order: the one that looks at the fewest actors, as
// far as the conditions show.
func (s *search) choose() {
	if s.chooseList(); s.list != "" {
		return
	}
	for _, c := range s.conditions {
		if c.field == "run" && c.op == "=" {
			s.runs = c.word
			return
		}
	}
	for _, ranges := range []bool{false, true} {
		for _, c := range s.conditions {
			if c.op != "!=" && c.field != "created" && c.stored() && (ranges || c.kind != 0 && c.op == "=") {
				s.field = c.field
				return
			}
		}
	}
}

// chooseList walks over the actors in a state if a condition names a state that the node has a list
// of.
func (s *search) chooseList() {
	for _, c := range s.conditions {
		if c.field == "state" && c.op == "=" && c.word != string(host.Asleep) {
			s.list = host.State(c.word)
			return
		}
	}
}

// bound sets the field of the walk and the values that the conditions allow.
func (s *search) bound(kind host.AttributeKind) {
	var b bounds
	switch s.field {
	case "":
		return
	case "size":
		s.walk.Field = tuple.AppendUint(nil, uint64(keyspace.ListingSize))
	case "updated":
		s.walk.Field = tuple.AppendUint(nil, uint64(keyspace.ListingUpdated))
	default:
		s.walk.Field, b = tuple.AppendString(nil, s.field), boundsOf(kind)
	}
	for i := range s.conditions {
		c := &s.conditions[i]
		if c.field != s.field {
			continue
		}
		if c.kind != 0 && c.op == "=" {
			s.walk.Value = c.value // others of the field are checked for each actor
		}
		c.narrow(&b)
	}
	s.walk.From, s.walk.To = b.from, b.to
}

// resume computes the digest of the selection, and reads the cursor.
func (s *search) resume() error {
	digest := fnv.New64a()
	fmt.Fprintf(digest, "%q %q %q %q %q", s.namespace, s.q.Type, s.q.Prefix, s.q.Where, s.q.Sort)
	s.selection = digest.Sum64()
	if s.q.Cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s.q.Cursor)
	if err == nil && len(b) >= 8 && bytes.Equal(b[:8], s.digest()) {
		s.walk.After = b[8:]
		row, err := keyspace.ParseWakeRow(s.walk.After)
		if s.runs == "" || err == nil && row.Due == s.runsDue() {
			return nil
		}
	}
	return invalid("cursor", "the cursor is not of an earlier page of this selection")
}

// runsDue returns the time in the wake index that lists the runs in the state of the walk.
func (s *search) runsDue() int64 {
	if s.runs == string(wfhost.StateFailed) {
		return keyspace.FailedRunsDue
	}
	return keyspace.PausedRunsDue
}

func (s *search) digest() []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(s.selection >> (8 * i))
	}
	return b
}

// run returns the page.
func (s *search) run() (page host.ListPage, err error) {
	page.Actors = []host.Status{}
	if s.refused != nil {
		return page, nil
	}
	next := s.inOrder
	switch {
	case s.list != "":
		if next, err = s.inState(); err != nil {
			return page, err
		}
	case s.runs != "":
		next = s.withRuns
	}
	known := slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.stored() })
	for batch := s.q.Limit; ; batch = min(2*batch, maxCandidates) { // a state of few actors takes few walks
		if !known {
			batch = s.q.Limit - len(page.Actors) // all are admitted
		}
		found, n, end, err := next(min(batch, maxCandidates), maxLooked-*s.looked)
		if err != nil {
			return page, unbuilt(err)
		}
		*s.looked += n
		earlier := page.Actors
		for i := range found {
			if len(page.Actors) == s.q.Limit {
				s.walk.After, s.at, end = found[i-1].row, found[i-1].part, false
				break
			}
			st, ok, err := s.admit(&found[i].ActorEntry)
			if err != nil {
				return page, err
			}
			// it has changed its place since
			if !ok || slices.ContainsFunc(earlier, func(other host.Status) bool { return other.ID == st.ID }) {
				continue
			}
			page.Actors = append(page.Actors, st)
			if s.after != nil && s.after[st.ID] == "" { // an actor whose state changes may come again
				s.after[st.ID] = s.cursor(found[i].row, found[i].part)
			}
		}
		switch {
		case end:
			return page, nil
		case len(page.Actors) == s.q.Limit || *s.looked >= maxLooked:
			page.Cursor = s.cursor(s.walk.After, s.at)
			return page, nil
		}
	}
}

// cursor returns the cursor after a row of the walk.
func (s *search) cursor(row []byte, part int) string {
	cursor := base64.RawURLEncoding.EncodeToString(append(s.digest(), row...))
	if s.q.Type == "" {
		cursor += "." + s.parts[part].q.Type
	}
	return cursor
}

// admit describes an actor that meets the conditions on the store's data; false if it does not meet
// the others.
func (s *search) admit(e *engine.ActorEntry) (st host.Status, ok bool, err error) {
	st = EntryStatus(e)
	presented, reported := false, false
	complete := func(rows bool) (err error) {
		if !presented {
			err, presented = s.present(&st), true
		}
		if rows && !reported && err == nil {
			err, reported = s.report(&st), true
		}
		return err
	}
	for i := range s.conditions {
		c := &s.conditions[i]
		if c.stored() {
			continue
		}
		if err := complete(c.field == "run"); err != nil {
			return st, false, err
		}
		is := string(st.State)
		if c.field == "run" {
			if is = ""; st.Run != nil {
				is = string(st.Run.State)
			}
		}
		if !c.op.holds(strings.Compare(is, c.word)) {
			return st, false, nil
		}
	}
	if s.q.Brief {
		return host.Status{ID: st.ID, Type: st.Type, Key: st.Key}, true, nil
	}
	return st, true, complete(true)
}

// inOrder returns the next actors of the walk that meet the conditions on the store's data, and how
// many actors it looked at. end: there are no others. It moves the walk on.
func (s *search) inOrder(limit, budget int) (found []candidate, looked int, end bool, err error) {
	var after []byte
	end = true
	walks := make([]engine.FindQuery, len(s.parts))
	for i, p := range s.parts {
		walks[i] = p.walk
	}
	err = s.store.FindMerged(walks, s.walk.After, func(i int, f *engine.Found) (bool, error) {
		if len(found) == limit || looked == budget {
			end = false
			return false, nil
		}
		looked++
		after, s.at = append(after[:0], f.Row...), i
		e, ok, err := s.parts[i].meets(f)
		if ok {
			found = append(found, candidate{e, slices.Clone(after), i})
		}
		return true, err
	})
	if looked > 0 {
		s.walk.After = after
	}
	if err == engine.ErrCursor {
		err = invalid("cursor", "the cursor is not of an earlier page of this selection")
	}
	return found, looked, end, err
}

// meets reports whether an actor meets the conditions on the store's data.
func (s *search) meets(f *engine.Found) (e engine.ActorEntry, ok bool, err error) {
	if !hasPrefix(f.Key, s.q.Prefix) {
		return e, false, nil
	}
	e = engine.ActorEntry{ID: f.ID, Identity: engine.Identity{Namespace: s.namespace, Type: s.q.Type, Key: f.Key}}
	read := false
	head := func() (engine.Head, error) {
		if !read {
			e.Head, err = f.Head()
			read = true
		}
		return e.Head, err
	}
	for i := range s.conditions {
		if c := &s.conditions[i]; c.stored() {
			if ok, err := c.admits(f, s.field, head); err != nil || !ok {
				return e, false, err
			}
		}
	}
	if !s.q.Brief {
		_, err = head()
	}
	return e, err == nil, err
}

func hasPrefix(key, prefix []string) bool {
	return len(key) >= len(prefix) && slices.Equal(key[:len(prefix)], prefix)
}

// exactly appends an actor by its key to the found, if it meets the conditions on the store's data.
// The walk is at row.
func (s *search) exactly(found []candidate, key []string, row []byte) ([]candidate, error) {
	s.walk.After = row
	err := s.store.Find(engine.FindQuery{Namespace: s.namespace, Type: s.q.Type, Prefix: key},
		func(f *engine.Found) (bool, error) {
			if len(f.Key) != len(key) {
				return false, nil
			}
			e, ok, err := s.meets(f)
			if ok {
				found = append(found, candidate{ActorEntry: e, row: row})
			}
			return false, err
		})
	return found, err
}

// inState returns a function like inOrder that walks over a list of actors in a state, in the order
// of their keys.
func (s *search) inState() (func(limit, budget int) ([]candidate, int, bool, error), error) {
	var keys [][]string // of up to twice as many actors as a page looks at
	cut := false
	trim := func() {
		slices.SortFunc(keys, slices.Compare)
		if s.walk.Reverse {
			slices.Reverse(keys)
		}
		if len(keys) > maxLooked {
			keys, cut = keys[:maxLooked], true
		}
	}
	var row []byte
	err := s.state(s.q.Type, s.list, func(key []string) {
		if !hasPrefix(key, s.q.Prefix) {
			return
		}
		if s.walk.After != nil {
			row = keyspace.AppendListingKey(row[:0], key)
			order := bytes.Compare(row, s.walk.After)
			if s.walk.Reverse && order >= 0 || !s.walk.Reverse && order <= 0 {
				return
			}
		}
		if keys = append(keys, key); len(keys) == 2*maxLooked {
			trim()
		}
	})
	if err != nil {
		return nil, err
	}
	trim()
	return func(limit, budget int) (found []candidate, looked int, end bool, err error) {
		for ; len(keys) > 0 && len(found) < limit && looked < budget; looked++ {
			row := keyspace.AppendListingKey([]byte{}, keys[0]) // not nil, if the key has no parts
			if found, err = s.exactly(found, keys[0], row); err != nil {
				return nil, looked, false, err
			}
			keys = keys[1:]
		}
		return found, looked, len(keys) == 0 && !cut, nil
	}, nil
}

// withRuns is like inOrder. It walks over the list of workflow runs that are paused or have failed,
// in the order of the actors' ids.
func (s *search) withRuns(limit, budget int) (found []candidate, looked int, end bool, err error) {
	due := s.runsDue()
	if s.walk.After == nil {
		s.walk.After = keyspace.AppendWakeTime(nil, due)
	}
	rows, err := s.store.Wakes(s.walk.After, due, min(budget, 1024))
	if err != nil {
		return nil, 0, false, err
	}
	for _, row := range rows {
		if len(found) == limit {
			return found, looked, false, nil
		}
		looked++
		s.walk.After = row.Row
		if row.Kind != keyspace.WakeListed || row.Name != s.q.Type {
			continue
		}
		i, _, ok, err := s.store.Identity(row.ID)
		if err != nil {
			return nil, looked, false, err
		}
		if !ok || i.Namespace != s.namespace {
			continue
		}
		if found, err = s.exactly(found, i.Key, row.Row); err != nil {
			return nil, looked, false, err
		}
	}
	return found, looked, len(rows) < min(budget, 1024), nil
}
