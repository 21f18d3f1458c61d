package kv

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// pageBytes ends a page early: after the entry that reaches it, with keys and values.
const pageBytes = 4 << 20

// pagesBytes is pageBytes for the pages of kv.list_many together: enough for kv.MaxListed entries
// of KV Connect, whose keys have up to 2 KiB and whose values have up to 64 KiB.
const pagesBytes = 66 << 20

// list implements kv.list.
func list(r *reader, in *kv.ListInput) (kv.ListOutput, error) {
	room := pageBytes
	return listing(r, in, &room, false)
}

// listMany implements kv.list_many.
func listMany(r *reader, in *kv.ListManyInput) (kv.ListManyOutput, error) {
	if n := len(in.Lists); n > kv.MaxLists {
		return kv.ListManyOutput{}, host.OverLimit("lists", kv.MaxLists, int64(n)).With("field", "lists")
	}
	entries := 0
	for i := range in.Lists {
		limit := in.Lists[i].Limit
		if limit < 0 || limit > kv.MaxPage {
			e := host.Errorf(host.InvalidArgument, "limit is %d; it is 1 to %d, or 0 for %d", limit,
				kv.MaxPage, kv.DefaultPage)
			return kv.ListManyOutput{}, at("lists", i, e.With("field", "limit"))
		}
		entries += cmp.Or(limit, kv.DefaultPage)
	}
	if entries > kv.MaxListed {
		return kv.ListManyOutput{}, host.OverLimit("entries", kv.MaxListed, int64(entries)).With("field", "lists")
	}
	out, room := kv.ListManyOutput{Pages: make([]kv.ListOutput, len(in.Lists))}, pagesBytes
	for i := range in.Lists {
		if room <= 0 {
			return kv.ListManyOutput{},
				host.OverLimit("bytes of the entries", pagesBytes, int64(pagesBytes-room)).With("field", "lists")
		}
		page, err := listing(r, &in.Lists[i], &room, true)
		if err != nil {
			return kv.ListManyOutput{}, at("lists", i, err)
		}
		out.Pages[i] = page
	}
	return out, nil
}

// listing makes a page, of up to room bytes, and takes them from room. With first, a page of one
// entry may have a cursor at the end.
func listing(r *reader, in *kv.ListInput, room *int, first bool) (kv.ListOutput, error) {
	r, err := r.moment(&in.Moment)
	if err != nil {
		return kv.ListOutput{}, err
	}
	start, end, err := bounds(&in.Selection)
	if err != nil {
		return kv.ListOutput{}, err
	}
	filter, text, err := compile(r.codec, in.Where, r.now)
	if err != nil {
		return kv.ListOutput{}, of("where", err)
	}
	of := [][]byte{start, end, text, strconv.AppendBool(nil, in.Reverse), strconv.AppendUint(nil, in.At, 10)}
	if in.Branch != "" {
		of = append(of, []byte(in.Branch))
	}
	if in.Time != nil {
		of = append(of, nil, strconv.AppendInt(nil, in.Time.UnixMilli(), 10))
	}
	listing := listingOf(of...)
	if in.Cursor != "" {
		last, err := after(in.Cursor, listing, start, end)
		switch {
		case err != nil:
			return kv.ListOutput{}, err
		case in.Reverse:
			end = last
		default:
			start = append(last, 0)
		}
	}
	l := lister{reader: r, in: in, filter: filter, listing: listing, room: room}
	if first && in.Limit == 1 && filter == nil && !in.Digest && !in.Reverse && start != nil &&
		(end == nil || bytes.Compare(start, end) < 0) {
		if there, err := l.first(start); there || err != nil {
			return l.out, err
		}
	}
	last, err := l.page(start, end)
	if err != nil {
		return kv.ListOutput{}, err
	}
	switch {
	case last == nil:
	case in.Reverse:
		start = last
	default:
		end = append(last[:len(last):len(last)], 0)
	}
	if last != nil {
		l.out.Cursor = cursorOf(l.listing, last)
	}
	if in.Digest {
		l.out.Digest = digestOf(l.digest, start, end)
	}
	return l.out, nil
}

// compile compiles a filter, and returns its text; it is nil without a text.
func compile(codec host.Codec, raw host.Raw, now time.Time) (filter *where.Filter, text []byte, err error) {
	if text = []byte(given(codec, raw)); len(text) == 0 {
		return nil, nil, nil
	}
	if codec == host.CBOR {
		text, err = kv.Bytes(text)
	}
	if err == nil { // a text that is empty is no filter, and never none
		filter, err = where.Compile(text, now)
	}
	return filter, text, err
}

// first adds the entry of a key, if there is one. Clients of Deno KV get an entry by a page of one.
// Looking for more behind it is slow if it was overwritten often.
func (l *lister) first(key []byte) (bool, error) {
	row := keyspace.UserKV.Append(nil, key)
	e, there, err := l.rows.Get(row)
	if !there || err != nil {
		return false, err
	}
	e.Key = row
	l.out.Cursor = cursorOf(l.listing, key)
	return true, l.add(&e, !l.in.KeysOnly)
}

// A lister makes one page.
type lister struct {
	*reader
	in      *kv.ListInput
	filter  *where.Filter
	listing uint64
	out     kv.ListOutput
	room    *int // bytes
	digest  kvrows.Digest
}

// page fills the page. It returns the packed key of the last entry that it read, or nil if no entry
// is left.
func (l *lister) page(start, end []byte) (last []byte, err error) {
	limit := cmp.Or(l.in.Limit, kv.DefaultPage)
	values := !l.in.KeysOnly
	l.out.Entries = []kv.Entry{}
	q := engine.ListQuery{Reverse: l.in.Reverse, KeysOnly: !values &&
		l.filter == nil, Limit: limit + 1, MaxBytes: pageBytes}
	q.Start, q.End = kvrows.Bounds(start, end)
	scanned, read, began := 0, 0, time.Now()
	for {
		page, err := l.rows.List(q)
		if err != nil {
			return nil, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if len(l.out.Entries) == limit || *l.room <= 0 || l.filter != nil && scanned > 0 &&
				(scanned >= scanEntries || read >= scanBytes || time.Since(began) > scanTime) {
				return last, nil
			}
			scanned++
			read += len(e.Key) + len(e.Value)
			if err := l.add(e, values); err != nil {
				return nil, err
			}
			if last = e.Key[1:]; l.in.Digest {
				l.digest.Add(e)
			}
		}
		if page.Next == nil {
			return nil, nil
		}
		q.After = page.Next
	}
}

// add adds an entry if it meets the filter.
func (l *lister) add(e *engine.Entry, values bool) error {
	parts, err := tuple.Unpack(e.Key[1:])
	if err != nil {
		return err
	}
	key := kv.Key(parts)
	if l.filter != nil {
		meets, err := meets(l.filter, key, e)
		if err != nil || !meets {
			return err
		}
	}
	out, err := entryOf(l.codec, key, e, values)
	if err != nil {
		return err
	}
	l.out.Entries = append(l.out.Entries, out)
	*l.room -= len(e.Key) + len(out.Value)
	return nil
}

// meets reports whether an entry meets a filter.
func meets(filter *where.Filter, key kv.Key, e *engine.Entry) (bool, error) {
	v, err := document(value.Value{Encoding: host.Encoding(e.Encoding), Data: e.Value})
	if err != nil {
		return false, err
	}
	shown, err := json.Marshal(key)
	if err != nil {
		return false, err
	}
	parts, err := where.Decode(shown)
	if err != nil {
		return false, err
	}
	list, _ := parts.([]any)
	return filter.Meets(&where.Entry{
		Key: list, Value: v, Version: uint64(e.Version), Size: e.Size,
		Created: clock.TimeMS(e.Created), Updated: clock.TimeMS(e.Updated), Expires: clock.TimeMS(e.Expire),
	}), nil
}

// document decodes a value for a filter.
func document(v value.Value) (any, error) {
	text, err := v.AppendJSON(nil)
	if err != nil {
		return nil, host.Errorf(host.Internal, "a stored value %s", err)
	}
	return where.Decode(text)
}

// A filter reads up to so many entries for one page, so that a page ends if few entries meet it.
const (
	scanEntries = 10_000
	scanBytes   = 16 << 20
	scanTime    = time.Second
)

var cursorText = base64.RawURLEncoding

// cursorOf names the last entry of a page, and the listing that it belongs to.
func cursorOf(listing uint64, last []byte) string {
	return cursorText.EncodeToString(append(fmt.Appendf(nil, "%016x", listing), last...))
}

// after returns the packed key that a cursor of a listing names. It refuses a key outside of the
// listing's bounds, because a client may make a cursor.
func after(cursor string, listing uint64, start, end []byte) ([]byte, error) {
	b, err := cursorText.DecodeString(cursor)
	mark := fmt.Sprintf("%016x", listing)
	last, ok := bytes.CutPrefix(b, []byte(mark))
	if err != nil || !ok || len(last) == 0 || bytes.Compare(last, start) < 0 ||
		end != nil && bytes.Compare(last, end) >= 0 {
		return nil, errCursor
	}
	return last, nil
}

var errCursor = host.Errorf(host.InvalidArgument, "the cursor does not belong to this listing").With("field", "cursor")

// digestOf encodes the digest of a range with its bounds, so that a check needs nothing else.
func digestOf(d kvrows.Digest, start, end []byte) string {
	b := binary.AppendUvarint(d.Append(nil), uint64(len(start)))
	return cursorText.EncodeToString(append(append(b, start...), end...))
}

// parseDigest reads the result of digestOf. An empty end is the end of the store: any other range
// that ends there has no entries.
func parseDigest(text string) (c kvrows.Check, err error) {
	b, err := cursorText.DecodeString(text)
	if err != nil || len(b) <= kvrows.DigestSize {
		return c, errDigest
	}
	bounds := b[kvrows.DigestSize:]
	size, n := binary.Uvarint(bounds)
	if n <= 0 || size > uint64(len(bounds)-n) {
		return c, errDigest
	}
	c = kvrows.Check{Want: kvrows.Unchanged, Key: bounds[n : n+int(size)],
		Digest: kvrows.ReadDigest([kvrows.DigestSize]byte(b))}
	if rest := bounds[n+int(size):]; len(rest) > 0 {
		c.End = rest
	}
	return c, nil
}

var errDigest = host.Errorf(host.InvalidArgument, "the digest is not one of kv.list").With("field", "digest")
