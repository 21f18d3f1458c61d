package keyspace

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const subspaceHex = "14 15 03 15 48 30" + testIDHex

// rowVectors has every form of row with its bytes and how it prints.
var rowVectors = []struct {
	hex    string
	row    Row
	prints string
}{
	{subspaceHex + "05 01 01 00 00 15 04 14", Row{Space: SpaceActors, Type: RowData, ID: testID, Key: []byte{1}}, "actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 0"},
	{subspaceHex + "05 01 01 00 00 15 04 15 01", Row{Space: SpaceActors, Type: RowData, ID: testID, Key: []byte{1}, Chunk: 1}, "actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 1"},
	{subspaceHex + "05 01 01 00 00 15 04 16 01 2C", Row{Space: SpaceActors, Type: RowData, ID: testID, Key: []byte{1}, Chunk: 300}, "actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 300"},
	{subspaceHex + "05 01 01 00 00 15 2C", Row{Space: SpaceActors, Type: RowMetadata, ID: testID, Key: []byte{1}}, "actor/1234699c-ea00-8f01-bf03-040506070809/persisted/metadata"},
	{subspaceHex + "05 01 04 01 66 6F 6F 00 FF 00 00 15 2C", Row{Space: SpaceActors, Type: RowMetadata, ID: testID, Key: []byte("\x04\x01foo\x00")}, `actor/1234699c-ea00-8f01-bf03-040506070809/kv(x"666f6f")/metadata`},
	{subspaceHex + "05 01 05 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 01 00 00 15 04 14", Row{Space: SpaceActors, Type: RowData, ID: testID, Key: []byte("\x05\x00\x00\x00\x00\x00\x00\x00\x01")}, "actor/1234699c-ea00-8f01-bf03-040506070809/queue/1/data 0"},
	{subspaceHex + "05 01 09 00 FF 00 FF 00 00 15 2C", Row{Space: SpaceActors, Type: RowMetadata, ID: testID, Key: []byte("\x09\x00\x00")}, "actor/1234699c-ea00-8f01-bf03-040506070809/sqlite/main/metadata/metadata"},
	{subspaceHex + "05 01 00 00 15 2C", Row{Space: SpaceActors, Type: RowMetadata, ID: testID, Key: []byte{}}, `actor/1234699c-ea00-8f01-bf03-040506070809/?x""/metadata`},
	{subspaceHex + "14", Row{Space: SpaceActors, Type: RowHead, ID: testID}, "actor/1234699c-ea00-8f01-bf03-040506070809/head"},
	{subspaceHex + "15 01", Row{Space: SpaceActors, Type: RowIdentity, ID: testID}, "actor/1234699c-ea00-8f01-bf03-040506070809/identity"},
	{"14 15 03 15 46 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00 02 61 63 6D 65 00 02 65 75 00", Row{Space: SpaceDirectory, Type: RowDirectory, Namespace: "default", ActorType: "tenant", ActorKey: []string{"acme", "eu"}}, `directory("default", "tenant", "acme", "eu")`},
	{"14 15 03 15 46 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00", Row{Space: SpaceDirectory, Type: RowDirectory, Namespace: "default", ActorType: "tenant"}, `directory("default", "tenant")`},
	{"14 15 03 15 47 30" + testIDHex, Row{Space: SpaceTombstones, Type: RowTombstone, ID: testID}, "tombstone/1234699c-ea00-8f01-bf03-040506070809"},
	{"14 15 03 15 49 1A 01 9C 8C F2 10 00 30" + testIDHex + "15 01 02 72 65 6D 69 6E 64 00 02 00", Row{Space: SpaceWakes, Type: RowWake, ID: testID, Wake: WakeRow{1771891200000, testID, WakeAlarm, "remind", ""}}, `wake(1771891200000, 1234699c-ea00-8f01-bf03-040506070809, alarm, "remind", "")`},
	{"14 15 03 15 49 14 30" + testIDHex + "15 03 02 00 02 00", Row{Space: SpaceWakes, Type: RowWake, ID: testID, Wake: WakeRow{0, testID, WakeExpiry, "", ""}}, `wake(0, 1234699c-ea00-8f01-bf03-040506070809, expiry, "", "")`},
	{"14 15 03 15 4A 16 01 02", Row{Space: SpaceOutbox, Type: RowOutbox, Seq: 258}, "outbox/258"},
	{"14 15 03 15 4A 1C FF FF FF FF FF FF FF FF", Row{Space: SpaceOutbox, Type: RowOutbox, Seq: math.MaxUint64}, "outbox/18446744073709551615"},
	{"14 15 03 15 4B 02 66 6F 72 6D 61 74 00", Row{Space: SpaceStore, Type: RowMeta, Name: "format"}, `store("format")`},
}

// sameRow compares what two rows say, not the buffers behind them.
func sameRow(a, b Row) bool {
	a.buf, b.buf = nil, nil
	return reflect.DeepEqual(a, b)
}

func TestRowVectors(t *testing.T) {
	for _, v := range rowVectors {
		want := unhex(t, v.hex)
		if got := v.row.Append([]byte("x")); !bytes.Equal(got[1:], want) {
			t.Errorf("%s: bytes %x, want %x", v.prints, got[1:], want)
		}
		got, err := ParseRow(want)
		if err != nil || !sameRow(got, v.row) {
			t.Errorf("%x parses to %+v (%v), want %+v", want, got, err, v.row)
		}
		if got := FormatRow(want); got != v.prints {
			t.Errorf("%x prints %s, want %s", want, got, v.prints)
		}
	}
}

func TestKeyWrapperVectors(t *testing.T) {
	for key, want := range map[string]string{
		"01":                         "05 01 01 00 00",
		"04 01 66 6F 6F 00":          "05 01 04 01 66 6F 6F 00FF 00 00",
		"05 00 00 00 00 00 00 00 01": "05 01 05 00FF 00FF 00FF 00FF 00FF 00FF 00FF 01 00 00",
		"09 00 00":                   "05 01 09 00FF 00FF 00 00",
		"":                           "05 01 00 00",
	} {
		if got := AppendWrapper(nil, unhex(t, key)); !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("wrapper of %s: %x, want %s", key, got, want)
		}
	}
}

func TestRowsOfA25000ByteValue(t *testing.T) {
	key := []byte("\x04\x01foo\x00")
	const wrapped = subspaceHex + "05 01 04 01 66 6F 6F 00 FF 00 00"
	const size = 25_000
	var rows [][]byte
	for chunk := 0; chunk*ChunkSize < size; chunk++ {
		rows = append(rows, AppendDataRow(nil, testID, key, chunk))
	}
	rows = append(rows, AppendMetadataRow(nil, testID, key))
	want := [][]byte{
		unhex(t, wrapped+"15 04 14"),
		unhex(t, wrapped+"15 04 15 01"),
		unhex(t, wrapped+"15 04 15 02"),
		unhex(t, wrapped+"15 2C"),
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("rows\n%x, want\n%x", rows, want)
	}
	if !slices.IsSortedFunc(rows, bytes.Compare) {
		t.Error("data rows do not come before the metadata row")
	}
	split := SplitRow(rows[0])
	for _, row := range rows {
		if SplitRow(row) != split || !bytes.Equal(row[:split], AppendKeyPrefix(nil, testID, key)) {
			t.Errorf("%x splits at %d", row, SplitRow(row))
		}
	}
}

func TestSubspaceOfAnActor(t *testing.T) {
	prefix := AppendActorPrefix(nil, testID)
	if !bytes.Equal(prefix, unhex(t, subspaceHex)) || len(prefix) != 22 {
		t.Errorf("S is %x", prefix)
	}
	if slot := AppendSlotPrefix(nil, testID.Slot()); !bytes.HasPrefix(prefix, slot) || len(slot) != 8 {
		t.Errorf("slot prefix %x", slot)
	}
	if actors := AppendSpacePrefix(nil, SpaceActors); !bytes.HasPrefix(prefix, actors) {
		t.Errorf("space prefix %x", actors)
	}
	if end, last := AppendSlotPrefix(nil, Slots), NewActorID(Slots-1, math.MaxUint32, [10]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255}); bytes.Compare(AppendIdentityRow(nil, last), end) >= 0 {
		t.Error("the range of the last slot ends before its last row")
	}
	last := bytes.Repeat([]byte{0xFF}, 16)
	for _, row := range [][]byte{AppendHeadRow(nil, ActorID(last)), AppendDataRow(nil, ActorID(last), last, math.MaxInt32)} {
		if !in(row, AppendActorPrefix(nil, ActorID(last)), Successor(AppendActorPrefix(nil, ActorID(last)))) {
			t.Errorf("%x is outside its actor", row)
		}
	}
}

func TestHeadAndIdentityComeAfterAllKeys(t *testing.T) {
	last := AppendMetadataRow(nil, testID, bytes.Repeat([]byte{0xFF}, 100))
	head, identity := AppendHeadRow(nil, testID), AppendIdentityRow(nil, testID)
	if bytes.Compare(last, head) >= 0 || bytes.Compare(head, identity) >= 0 {
		t.Error("want keys < head < identity")
	}
	scan := AppendScanPrefix(nil, testID, nil)
	if in(head, scan, Successor(scan)) || in(identity, scan, Successor(scan)) || !in(last, scan, Successor(scan)) {
		t.Error("a scan of all keys is not exactly that")
	}
}

func TestParseRowRefusesWithOffset(t *testing.T) {
	for name, c := range map[string]struct {
		hex    string
		offset int
		reason string
	}{
		"empty":                  {"", 0, "found end"},
		"other root":             {"15 01 15 03", 0, "not under the root"},
		"other root, second":     {"14 15 04", 1, "not under the root"},
		"root only":              {"14 15 03", 3, "found end"},
		"space below":            {"14 15 03 15 45", 3, "unknown space 69"},
		"space above":            {"14 15 03 15 4C 14", 3, "unknown space 76"},
		"actor without id":       {"14 15 03 15 48", 5, "want uuid"},
		"actor id cut short":     {"14 15 03 15 48 30 01", 7, "uuid cut short"},
		"actor prefix":           {subspaceHex, 22, "found end"},
		"unknown row":            {subspaceHex + "15 02", 22, "unknown row 2"},
		"data without key":       {subspaceHex + "15 04 14", 22, "unknown row 4"},
		"head with key":          {subspaceHex + "05 01 01 00 00 14", 27, "unknown row 0"},
		"wrapper alone":          {subspaceHex + "05 01 01 00 00", 27, "found end"},
		"wrapper without end":    {subspaceHex + "05 01 01 00", 26, "tuple without end"},
		"wrapper of two":         {subspaceHex + "05 01 01 00 14 00", 26, "want end"},
		"wrapper of nothing":     {subspaceHex + "05 00 15 2C", 23, "want bytes"},
		"wrapper of a string":    {subspaceHex + "05 02 01 00 00 15 2C", 23, "want bytes"},
		"data without chunk":     {subspaceHex + "05 01 01 00 00 15 04", 29, "found end"},
		"negative chunk":         {subspaceHex + "05 01 01 00 00 15 04 13 FE", 29, "out of range"},
		"chunk too big":          {subspaceHex + "05 01 01 00 00 15 04 18 80 00 00 00", 29, "out of range"},
		"data and more":          {subspaceHex + "05 01 01 00 00 15 04 14 14", 30, "bytes after"},
		"metadata and more":      {subspaceHex + "05 01 01 00 00 15 2C 00", 29, "bytes after"},
		"head and more":          {subspaceHex + "14 14", 23, "bytes after"},
		"directory without type": {"14 15 03 15 46 02 61 00", 8, "found end"},
		"directory integer":      {"14 15 03 15 46 02 61 00 02 61 00 14", 11, "want string"},
		"tombstone and more":     {"14 15 03 15 47 30" + testIDHex + "00", 22, "bytes after"},
		"wake kind too big":      {"14 15 03 15 49 14 30" + testIDHex + "16 01 00 02 00 02 00", 23, "out of range"},
		"wake without instance":  {"14 15 03 15 49 14 30" + testIDHex + "15 01 02 00", 27, "found end"},
		"outbox negative":        {"14 15 03 15 4A 13 FE", 5, "outside the range"},
		"store integer":          {"14 15 03 15 4B 14", 5, "want string"},
	} {
		row := unhex(t, c.hex)
		got, err := ParseRow(row)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !sameRow(got, Row{}) {
			t.Errorf("%s: got %+v (%v)", name, got, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%s: %v, want byte %d: %s", name, err, c.offset, c.reason)
		}
		if printed := FormatRow(row); !strings.HasPrefix(printed, `?x"`) {
			t.Errorf("%s prints %s", name, printed)
		}
	}
}

func TestTypedRowParsers(t *testing.T) {
	for _, v := range rowVectors {
		row := unhex(t, v.hex)
		namespace, typ, key, err := ParseDirectoryRow(row)
		if v.row.Type == RowDirectory != (err == nil) || namespace != v.row.Namespace || typ != v.row.ActorType || !slices.Equal(key, v.row.ActorKey) {
			t.Errorf("ParseDirectoryRow(%s) = %q, %q, %q, %v", v.prints, namespace, typ, key, err)
		}
		if v.row.Type == RowDirectory {
			prefix := len(AppendDirectoryPrefix(nil, namespace, typ, nil))
			if rest, err := ParseDirectoryKey(row, prefix); err != nil || !slices.Equal(rest, key) {
				t.Errorf("ParseDirectoryKey(%s) = %q, %v", v.prints, rest, err)
			}
			if _, err := ParseDirectoryKey(append(row, 0x05), prefix); err == nil { // a UUID that has no bytes
				t.Errorf("ParseDirectoryKey takes %s with a piece of another element", v.prints)
			}
		}
		if id, err := ParseTombstoneRow(row); v.row.Type == RowTombstone != (err == nil) || err == nil && id != v.row.ID {
			t.Errorf("ParseTombstoneRow(%s) = %v, %v", v.prints, id, err)
		}
		if wake, err := ParseWakeRow(row); v.row.Type == RowWake != (err == nil) || wake != v.row.Wake {
			t.Errorf("ParseWakeRow(%s) = %v, %v", v.prints, wake, err)
		}
		if seq, err := ParseOutboxRow(row); v.row.Type == RowOutbox != (err == nil) || seq != v.row.Seq {
			t.Errorf("ParseOutboxRow(%s) = %v, %v", v.prints, seq, err)
		}
		if name, err := ParseMetaRow(row); v.row.Type == RowMeta != (err == nil) || name != v.row.Name {
			t.Errorf("ParseMetaRow(%s) = %v, %v", v.prints, name, err)
		}
	}
}

func TestWakeRowsOrderByTimeThenActor(t *testing.T) {
	other := testID
	other[15]++
	rows := [][]byte{
		AppendWakeRow(nil, -1, other, WakeExpiry, "", ""),
		AppendWakeRow(nil, 0, testID, WakeAlarm, "a", ""),
		AppendWakeRow(nil, 0, testID, WakeAlarm, "a", "1"),
		AppendWakeRow(nil, 0, testID, WakeSends, "", ""),
		AppendWakeRow(nil, 0, other, WakeAlarm, "a", ""),
		AppendWakeRow(nil, 255, testID, WakeAlarm, "", ""),
		AppendWakeTime(nil, 256),
		AppendWakeRow(nil, 256, testID, WakeAlarm, "", ""),
		AppendWakeRow(nil, 1<<40, testID, WakeAlarm, "", ""),
	}
	if !slices.IsSortedFunc(rows, bytes.Compare) {
		t.Errorf("not in order: %x", rows)
	}
}

func TestDirectoryPrefixSelectsExactlyTheActorsBelow(t *testing.T) {
	row := func(namespace, typ string, key ...string) []byte {
		return AppendDirectoryRow(nil, namespace, typ, key)
	}
	for name, c := range map[string]struct {
		prefix          []byte
		inside, outside [][]byte
	}{
		"key prefix": {
			AppendDirectoryPrefix(nil, "n", "t", []string{"a"}),
			[][]byte{row("n", "t", "a"), row("n", "t", "a", ""), row("n", "t", "a", "\xFF")},
			[][]byte{row("n", "t"), row("n", "t", "a\x00"), row("n", "t", "a\x00b", "c"), row("n", "t", "ab"), row("n", "t", "b"), row("n", "u", "a"), row("m", "t", "a")},
		},
		"type": {
			AppendDirectoryPrefix(nil, "n", "t", nil),
			[][]byte{row("n", "t"), row("n", "t", ""), row("n", "t", "\xFF\xFF")},
			[][]byte{row("n", "t\x00"), row("n", "ta"), row("n", "s", "x")},
		},
		"namespace": {
			AppendDirectoryPrefix(nil, "n", "", nil),
			[][]byte{row("n", ""), row("n", "t"), row("n", "\xFF", "a")},
			[][]byte{row("n\x00", "t"), row("na", "t"), row("m", "t")},
		},
	} {
		end := TupleEnd(c.prefix)
		for _, inside := range c.inside {
			if !in(inside, c.prefix, end) {
				t.Errorf("%s: %s is missing", name, FormatRow(inside))
			}
		}
		for _, outside := range c.outside {
			if in(outside, c.prefix, end) {
				t.Errorf("%s: %s is included", name, FormatRow(outside))
			}
		}
	}
}

func TestEverySpaceHasAVectorAndAName(t *testing.T) {
	seen := map[Space]bool{}
	for _, v := range rowVectors {
		seen[v.row.Space] = true
	}
	for _, info := range Spaces() {
		if !seen[info.Space] || info.Name != info.Space.String() || info.Form == "" || info.Value == "" {
			t.Errorf("%+v: vector %v, name %s", info, seen[info.Space], info.Space)
		}
	}
	if len(seen) != len(Spaces()) {
		t.Errorf("%d spaces have vectors, the table has %d", len(seen), len(Spaces()))
	}
	for got, want := range map[string]string{Space(1).String(): "space 1", RowType(99).String(): "row type 99", WakeKind(99).String(): "wake kind 99", WakeSends.String(): "sends"} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRowParseReusesItsMemory(t *testing.T) {
	queue := AppendDataRow(nil, testID, AppendQueueMessage(nil, 7), 3)
	state := AppendMetadataRow(nil, testID, []byte{1})
	var r Row
	if err := r.Parse(queue); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, row := range [][]byte{queue, state} {
			if err := r.Parse(row); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if r.Type != RowMetadata || r.Chunk != 0 || string(r.Key) != "\x01" {
		t.Errorf("the row of the last parse is %+v", r)
	}
	if err := r.Parse([]byte{1}); err == nil || !sameRow(r, Row{}) {
		t.Errorf("after an error: %+v (%v)", r, err)
	}
}

func TestBuildingRowsDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	key := AppendQueueMessage(nil, 7)
	parts := []string{"acme", "eu"}
	if n := testing.AllocsPerRun(100, func() {
		AppendDataRow(buf, testID, key, 300)
		AppendMetadataRow(buf, testID, key)
		AppendScanPrefix(buf, testID, key)
		AppendHeadRow(buf, testID)
		AppendDirectoryRow(buf, "default", "tenant", parts)
		AppendWakeRow(buf, 1771891200000, testID, WakeAlarm, "remind", "")
		AppendOutboxRow(buf, 7)
		AppendSplitSuccessor(buf, key)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
