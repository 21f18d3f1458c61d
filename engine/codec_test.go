package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// codec is a value of a row, with functions to decode and encode it.
type codec struct {
	name    string
	example []byte
	decode  func([]byte) (encode func() []byte, err error)
}

func codecs() []codec {
	identity := Identity{"ns", "tenant", []string{"acme", "", "a\x00b"}}
	m := metadata{version: 300, created: 1_700_000_000_000, updated: 1_700_000_000_005, expire: 1_800_000_000_000, size: 25000, chunks: 3}
	small := metadata{version: 300, created: 1_700_000_000_000, updated: 1_700_000_000_005, size: 5}
	encoded := small
	encoded.encoding = 7
	h := head{Head{Generation: 3, Version: 500, Keys: 7, Bytes: 12345, Created: 5, Updated: 6, Destroyed: true}, "\x14\x15"}
	tomb := Tombstone{identity, 99, 500}
	set := ChangeSet{ID: testID(1), Identity: identity, Generation: 3, Version: 500, TimeMS: 7,
		Traceparent: "00-ab-cd-01", Changes: []Change{
			{ChangeEvent, "added", []byte(`{"a":1}`), true}, {ChangeState, "", nil, false},
		}}
	return []codec{
		{"metadata of a long value", m.append(nil), decodeMetadata},
		{"metadata and value", append(small.append(nil), "value"...), decodeMetadata},
		{"metadata and value with an encoding", append(encoded.append(nil), "value"...), decodeMetadata},
		{"metadata of format 1", chunkedMetadata(&m), decodeMetadata},
		{"head", h.append([]byte{headFormat}, 0), func(b []byte) (func() []byte, error) {
			v, err := parseHead(b)
			return func() []byte { return v.append([]byte{headFormat}, 0) }, err
		}},
		{"root without a state", h.appendRoot(nil, &stateCache{}), decodeRoot},
		{"root with a long state", h.appendRoot(nil, &stateCache{exists: true, meta: m}), decodeRoot},
		{"root and state", h.appendRoot(nil, &stateCache{exists: true, meta: small, value: []byte("state")}), decodeRoot},
		{"identity", appendIdentity(nil, identity, 42), func(b []byte) (func() []byte, error) {
			v, created, err := parseIdentity(b)
			return func() []byte { return appendIdentity(nil, v, created) }, err
		}},
		{"tombstone", tomb.append(nil), func(b []byte) (func() []byte, error) {
			v, err := parseTombstone(b)
			return func() []byte { return v.append(nil) }, err
		}},
		{"directory", appendDirectory(nil, testID(1)), func(b []byte) (func() []byte, error) {
			v, err := parseDirectory(b)
			return func() []byte { return appendDirectory(nil, v) }, err
		}},
		{"change set", set.Append(nil), func(b []byte) (func() []byte, error) {
			v, err := ParseChangeSet(b)
			return func() []byte { return v.Append(nil) }, err
		}},
	}
}

func decodeMetadata(b []byte) (func() []byte, error) {
	m, value, err := parseMetadata(b)
	if err == nil && b[0] == chunkedFormat {
		return func() []byte { return chunkedMetadata(&m) }, nil
	}
	return func() []byte { return append(m.append(nil), value...) }, err
}

// chunkedMetadata is a metadata row as format 1 has it.
func chunkedMetadata(m *metadata) []byte {
	b := binary.AppendUvarint([]byte{chunkedFormat}, uint64(m.version))
	b = binary.AppendVarint(binary.AppendVarint(b, m.created), m.updated-m.created)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.size)), uint64(chunksOf(int(m.size))))
	return binary.AppendVarint(b, m.expire)
}

func decodeRoot(b []byte) (func() []byte, error) {
	r, err := parseRoot(b)
	return func() []byte { return r.appendRoot(nil, &r.state) }, err
}

func TestValuesOfRowsDecodeToWhatWasEncoded(t *testing.T) {
	for _, c := range codecs() {
		encode, err := c.decode(c.example)
		errorIf(t, err != nil || !bytes.Equal(encode(), c.example),
			"%s: %x decodes to %x, error %v", c.name, c.example, encode(), err)
		for n := range c.example {
			wantErr(t, errOf(c.decode(c.example[:n])), &CorruptError{}, c.name, n)
		}
		wantErr(t, errOf(c.decode(append(bytes.Clone(c.example), 0))), &CorruptError{}, c.name)
		newer := bytes.Clone(c.example)
		newer[0] += rootFormat
		wantErr(t, errOf(c.decode(newer)), &CorruptError{}, c.name)
	}
}

func FuzzValuesOfRows(f *testing.F) {
	for _, c := range codecs() {
		f.Add(c.example)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range codecs() {
			encode, err := c.decode(b)
			if err != nil {
				fatalIf(t, !errors.Is(err, &CorruptError{}), "%s: %v", c.name, err)
				continue
			}
			again := encode()
			back, err := c.decode(again)
			fatalIf(t, err != nil || !bytes.Equal(back(), again),
				"%s: %x encodes to %x, which decodes to %x, error %v", c.name, b, again, back(), err)
		}
	})
}

// FuzzMetadataIsReadAlike compares the quick way to read a metadata row, which most rows take, with
// the general one.
func FuzzMetadataIsReadAlike(f *testing.F) {
	for n := range 64 {
		for _, m := range []metadata{
			{version: 1 << n >> 1, created: 1 << n >> 2, updated: 1 << n >> 2, size: 3},
			{version: 3, created: 1_700_000_000_000, updated: 1_700_000_000_000 + 1<<n>>24, expire: 1 << n >> 2,
				size: 3, encoding: uint8(n)},
			{version: 200, created: -1 << n >> 2, updated: 5, expire: 200, size: uint32(n)},
		} {
			value := strings.Repeat("v", int(m.size))
			row := append(m.append(nil), value...)
			var quick metadata
			got, ok := quick.inline(row)
			errorIf(f, !ok || quick != m || string(got) != value, "%+v is read as %+v, %q, %v", m, quick, got, ok)
			f.Add(row)
		}
	}
	f.Add([]byte{metadataFormat, 0x81, 0x80, 0, 0x80, 0, 2, 0, 0})
	f.Fuzz(func(t *testing.T, row []byte) {
		quick := metadata{version: 9, created: 9, updated: 9, expire: 9, size: 9, chunks: 9, encoding: 9}
		got, ok := quick.inline(row)
		if !ok {
			return
		}
		m, value, err := parseMetadata(row)
		errorIf(t, err != nil || m != quick || !bytes.Equal(got, value),
			"%x is read as %+v, %x; otherwise as %+v, %x, %v", row, quick, got, m, value, err)
	})
}

// FuzzCursor decodes, through a list, row suffixes that the engine cannot have written.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{0x15, 0x04, 0x14}, []byte("x"))
	f.Add([]byte{0x15, 0x2C}, []byte{1, 1, 2, 3, 4, 5, 6})
	f.Add([]byte{0x15, 0x2C}, []byte{2, 1, 2, 3, 0, 1, 7})
	f.Add([]byte{0x15, 0x04, 0x18, 1, 2, 3, 4}, []byte{})
	f.Add([]byte{}, []byte{})
	s, err := Open(f.Context(), small(Options{}))
	must(f, err)
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, suffix, value []byte) {
		id := testID(1)
		row := keyspace.AppendMetadataRow(nil, id, kv("k"))
		row = append(row[:keyspace.SplitRow(row)], suffix...)
		whole := keyspace.AppendMetadataRow(nil, id, stateKey())
		h := head{Head: Head{Version: 1, Keys: 1}}
		databaseOf(s).Set(row, value, pebble.NoSync)
		databaseOf(s).Set(whole, h.appendRoot(nil, &stateCache{}), pebble.NoSync)
		sp := openSpace(t, s, 1)
		for _, q := range []ListQuery{{}, {Reverse: true}, {KeysOnly: true}, {KeysOnly: true, Reverse: true}} {
			_, err := sp.Writes().List(q)
			fatalIf(t, err != nil && !errors.Is(err, &CorruptError{}), "%v", err)
		}
		_, _, err := sp.Writes().Get(kv("k"))
		fatalIf(t, err != nil && !errors.Is(err, &CorruptError{}), "%v", err)
		_, err = sp.Writes().DeleteRange(nil, nil)
		fatalIf(t, err != nil && !errors.Is(err, &CorruptError{}), "%v", err)
		sp.Close()
		databaseOf(s).Delete(row, pebble.NoSync)
	})
}

// TestComparerOrdersWholeRowsForPebble is Pebble's own check with rows, and beginnings of rows, as
// prefixes and no suffixes. With suffixes it also checks that a prefix without its first bytes
// still splits. That holds for no row, and nothing here needs it; see newComparer. Package keyspace
// tests what Pebble documents of Split.
func TestComparerOrdersWholeRowsForPebble(t *testing.T) {
	id := testID(1)
	rows := [][]byte{keyspace.AppendHeadRow(nil, id), keyspace.AppendActorPrefix(nil, id), keyspace.AppendTombstoneRow(nil, id),
		keyspace.AppendWakeRow(nil, 7, id, 1, "a", "b"), keyspace.AppendOutboxRow(nil, 300), {0}, {0xFF}}
	for _, key := range []string{"", "\x00", "\x00\xFF", "\x01", "\x04a", "\x04a\x00", "\xFF\xFF"} {
		row := keyspace.AppendMetadataRow(nil, id, []byte(key))
		rows = append(rows, row[:keyspace.SplitRow(row)], keyspace.AppendScanPrefix(nil, id, []byte(key)))
	}
	slices.SortFunc(rows, bytes.Compare)
	must(t, pebble.CheckComparer(newComparer().EnsureDefaults(), slices.CompactFunc(rows, bytes.Equal), nil))
}

// A key that is absent is answered by the filter of its prefix.
func TestBloomFilterCoversChunksAndMetadata(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 100 {
		put(t, r.w, kv(string(rune('a'+i))), "x")
	}
	r.commit()
	must(t, databaseOf(r.Store).Flush())
	before := databaseOf(r.Store).Metrics().Filter.Hits
	for i := range 200 {
		wantAbsent(t, r.w, kv("absent"+string(rune(i))))
	}
	hits := databaseOf(r.Store).Metrics().Filter.Hits - before
	fatalIf(t, hits < 180, "the filter answered %d of 200", hits)
}
