package keyspace

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

const subspaceHex = "14 15 03 15 48 30" + testIDHex

// rowVectors has every form of row with its bytes and its printed form.
var rowVectors = []struct {
	hex    string
	row    Row
	prints string
}{
	{subspaceHex + "05 01 01 00 00 15 04 14", Row{Type: RowData, ID: testID, Key: []byte{1}},
		"actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 0"},
	{subspaceHex + "05 01 01 00 00 15 04 15 01", Row{Type: RowData, ID: testID, Key: []byte{1}, Chunk: 1},
		"actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 1"},
	{subspaceHex + "05 01 01 00 00 15 04 16 01 2C", Row{Type: RowData, ID: testID, Key: []byte{1}, Chunk: 300},
		"actor/1234699c-ea00-8f01-bf03-040506070809/persisted/data 300"},
	{subspaceHex + "05 01 01 00 00 15 2C", Row{Type: RowMetadata, ID: testID, Key: []byte{1}},
		"actor/1234699c-ea00-8f01-bf03-040506070809/persisted/metadata"},
	{subspaceHex + "05 01 04 01 66 6F 6F 00 FF 00 00 15 2C",
		Row{Type: RowMetadata, ID: testID,
			Key: []byte("\x04\x01foo\x00")}, `actor/1234699c-ea00-8f01-bf03-040506070809/kv(x"666f6f")/metadata`},
	{subspaceHex + "05 01 05 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 01 00 00 15 04 14",
		Row{Type: RowData, ID: testID,
			Key: []byte("\x05\x00\x00\x00\x00\x00\x00\x00\x01")}, "actor/1234699c-ea00-8f01-bf03-040506070809/queue/1/data 0"},
	{subspaceHex + "05 01 09 00 FF 00 FF 00 00 15 2C", Row{Type: RowMetadata, ID: testID, Key: []byte("\x09\x00\x00")},
		"actor/1234699c-ea00-8f01-bf03-040506070809/sqlite/main/metadata/metadata"},
	{subspaceHex + "05 01 00 00 15 2C", Row{Type: RowMetadata, ID: testID, Key: []byte{}},
		`actor/1234699c-ea00-8f01-bf03-040506070809/?x""/metadata`},
	{subspaceHex + "14", Row{Type: RowHead, ID: testID}, "actor/1234699c-ea00-8f01-bf03-040506070809/head"},
	{subspaceHex + "15 01", Row{Type: rowIdentity, ID: testID}, "actor/1234699c-ea00-8f01-bf03-040506070809/identity"},
	{"14 15 03 15 46 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00 02 61 63 6D 65 00 02 65 75 00",
		Row{Type: rowDirectory, namespace: "default", actorType: "tenant",
			actorKey: []string{"acme", "eu"}}, `directory("default", "tenant", "acme", "eu")`},
	{"14 15 03 15 46 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00",
		Row{Type: rowDirectory, namespace: "default", actorType: "tenant"}, `directory("default", "tenant")`},
	{"14 15 03 15 47 30" + testIDHex, Row{Type: RowTombstone, ID: testID}, "tombstone/1234699c-ea00-8f01-bf03-040506070809"},
	{"14 15 03 15 49 1A 01 9C 8C F2 10 00 30" + testIDHex + "15 01 02 72 65 6D 69 6E 64 00 02 00",
		Row{Type: RowWake, ID: testID,
			wake: WakeRow{1771891200000, testID, WakeAlarm, "remind", ""}},
		`wake(1771891200000, 1234699c-ea00-8f01-bf03-040506070809, alarm, "remind", "")`},
	{"14 15 03 15 49 14 30" + testIDHex + "15 03 02 00 02 00",
		Row{Type: RowWake, ID: testID,
			wake: WakeRow{0, testID, WakeExpiry, "", ""}}, `wake(0, 1234699c-ea00-8f01-bf03-040506070809, expiry, "", "")`},
	{"14 15 03 15 4A 16 01 02", Row{Type: rowOutbox, seq: 258}, "outbox/258"},
	{"14 15 03 15 4A 1C FF FF FF FF FF FF FF FF", Row{Type: rowOutbox, seq: math.MaxUint64}, "outbox/18446744073709551615"},
	{"14 15 03 15 4B 02 66 6F 72 6D 61 74 00", Row{Type: rowMeta, name: "format"}, `store("format")`},
	{"14 15 03 15 4C 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00 02 70 6C 61 6E 00 02 70 72 6F 00 02 61 63 6D 65 00", Row{Type: rowListing, listing: tuple.Tuple{"default", "tenant", "plan", "pro", "acme"}}, `listing("default", "tenant", "plan", "pro", "acme")`},
	{"14 15 03 15 4C 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00 15 01 16 03 C0",
		Row{Type: rowListing, listing: tuple.Tuple{"default", "tenant", uint64(1), int64(960)}}, `listing("default", "tenant", 1, 960)`},
	{"14 15 03 15 4D 14 16 01 02", Row{Type: rowAudit, seq: 258}, "audit/258"},
	{"14 15 03 15 4D 15 01 02 64 65 66 61 75 6C 74 00 02 74 65 6E 61 6E 74 00 02 61 63 6D 65 00 16 01 02",
		Row{Type: rowAuditActor, namespace: "default", actorType: "tenant", actorKey: []string{"acme"},
			seq: 258}, `audit("default", "tenant", "acme")/258`},
}

// appendRow appends the row that r describes: the inverse of ParseRow.
func appendRow(dst []byte, r Row) []byte {
	switch r.Type {
	case RowData:
		return AppendDataRow(dst, r.ID, r.Key, r.Chunk)
	case RowMetadata:
		return AppendMetadataRow(dst, r.ID, r.Key)
	case RowHead:
		return AppendHeadRow(dst, r.ID)
	case rowIdentity:
		return AppendIdentityRow(dst, r.ID)
	case rowDirectory:
		return AppendDirectoryRow(dst, r.namespace, r.actorType, r.actorKey)
	case RowTombstone:
		return AppendTombstoneRow(dst, r.ID)
	case RowWake:
		return AppendWakeRow(dst, r.wake.Due, r.wake.ID, r.wake.Kind, r.wake.Name, r.wake.Instance)
	case rowOutbox:
		return AppendOutboxRow(dst, r.seq)
	case rowListing:
		dst = AppendListing(dst, r.listing[0].(string), r.listing[1].(string))
		rest, _ := r.listing[2:].Pack()
		return append(dst, rest...)
	case rowAudit:
		return AppendAuditRow(dst, r.seq)
	case rowAuditActor:
		return AppendAuditActorRow(dst, r.namespace, r.actorType, r.actorKey, r.seq)
	default:
		return AppendMetaRow(dst, r.name)
	}
}

func TestRowVectors(t *testing.T) {
	for _, v := range rowVectors {
		want := unhex(t, v.hex)
		if got := appendRow([]byte("x"), v.row); !bytes.Equal(got[1:], want) {
			t.Errorf("%s: bytes %x, want %x", v.prints, got[1:], want)
		}
		got, err := ParseRow(want)
		errorIf(t, err != nil || !reflect.DeepEqual(got, v.row), "%x parses to %+v (%v), want %+v", want, got, err, v.row)
		if got := FormatRow(want); got != v.prints {
			t.Errorf("%x prints %s, want %s", want, got, v.prints)
		}
	}
}

// The rows of an actor are in its space, first those of its keys. Rows of wakes order by time, then
// by actor.
func TestRowsAreInTheirOrder(t *testing.T) {
	last := ActorID(bytes.Repeat([]byte{0xFF}, 16))
	for _, id := range []ActorID{testID, last} {
		prefix, scan := AppendActorPrefix(nil, id), AppendScanPrefix(nil, id, nil)
		rows := [][]byte{
			prefix,
			AppendDataRow(nil, id, []byte{0}, 0),
			AppendDataRow(nil, id, last[:], math.MaxInt32),
			AppendMetadataRow(nil, id, last[:]),
			AppendHeadRow(nil, id),
			AppendIdentityRow(nil, id),
		}
		errorIf(t, !slices.IsSortedFunc(rows, bytes.Compare), "not in order: %x", rows)
		for i, row := range rows {
			own, key := in(row, prefix, Successor(prefix)), in(row, scan, Successor(scan))
			errorIf(t, !own || key != (1 <= i && i <= 3), "%x is in the space of its actor: %v; among its keys: %v", row, own, key)
		}
		errorIf(t, !bytes.HasPrefix(prefix, appendSpace(nil, spaceActors)), "the space of an actor is %x", prefix)
	}
	other := testID
	other[15]++
	wakes := [][]byte{
		AppendWakeTime(nil, math.MinInt64),
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
	errorIf(t, !slices.IsSortedFunc(wakes, bytes.Compare), "not in order: %x", wakes)
}

func TestParseRowRefusesWithOffset(t *testing.T) {
	for name, c := range map[string]struct {
		hex    string
		offset int
		reason string
	}{
		"empty":                  {"", 0, "found end"},
		"other root":             {"15 01 15 03", 0, "not under the root"},
		"root only":              {"14 15 03", 3, "found end"},
		"space below":            {"14 15 03 15 45", 3, "unknown space 69"},
		"space above":            {"14 15 03 15 4E 14", 3, "unknown space 78"},
		"actor without id":       {"14 15 03 15 48", 5, "want uuid"},
		"actor id cut short":     {"14 15 03 15 48 30 01", 7, "uuid cut short"},
		"actor prefix":           {subspaceHex, 22, "found end"},
		"unknown row":            {subspaceHex + "15 02", 22, "unknown row 2"},
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
		"directory integer":      {"14 15 03 15 46 02 61 00 02 61 00 14", 11, "want string"},
		"tombstone and more":     {"14 15 03 15 47 30" + testIDHex + "00", 22, "bytes after"},
		"wake kind too big":      {"14 15 03 15 49 14 30" + testIDHex + "16 01 00 02 00 02 00", 23, "out of range"},
		"wake without instance":  {"14 15 03 15 49 14 30" + testIDHex + "15 01 02 00", 27, "found end"},
		"audit of another sort":  {"14 15 03 15 4D 15 02 14", 5, "unknown row 2"},
		"audit without sequence": {"14 15 03 15 4D 15 01 02 00 02 00 02 61 00", 14, "found end"},
	} {
		row := unhex(t, c.hex)
		got, err := ParseRow(row)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !reflect.DeepEqual(got, Row{}) {
			t.Errorf("%s: got %+v (%v)", name, got, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%s: %v, want byte %d: %s", name, err, c.offset, c.reason)
		}
		printed := FormatRow(row)
		errorIf(t, !strings.HasPrefix(printed, `?x"`), "%s prints %s", name, printed)
	}
}

func TestTypedRowParsers(t *testing.T) {
	for _, v := range rowVectors {
		row := unhex(t, v.hex)
		for of, parse := range map[RowType]func([]byte) (uint64, error){
			rowAudit: ParseAuditRow, rowAuditActor: ParseAuditActorRow, rowOutbox: ParseOutboxRow,
		} {
			if seq, err := parse(row); v.row.Type == of != (err == nil) || err == nil && seq != v.row.seq {
				t.Errorf("%s parsed as %v: %v, %v", v.prints, of, seq, err)
			}
		}
		if wake, err := ParseWakeRow(row); v.row.Type == RowWake != (err == nil) || wake != v.row.wake {
			t.Errorf("ParseWakeRow(%s) = %v, %v", v.prints, wake, err)
		}
		namespace, typ, key, err := ParseDirectoryRow(row)
		if v.row.Type != rowDirectory {
			errorIf(t, err == nil, "%s is taken for a row of the directory", v.prints)
			continue
		}
		if err != nil || namespace != v.row.namespace || typ != v.row.actorType || !slices.Equal(key, v.row.actorKey) {
			t.Errorf("ParseDirectoryRow(%s) = %q, %q, %q, %v", v.prints, namespace, typ, key, err)
		}
		prefix := len(AppendDirectoryPrefix(nil, namespace, typ, nil))
		if rest, err := ParseDirectoryKey(row, prefix); err != nil || !slices.Equal(rest, key) {
			t.Errorf("ParseDirectoryKey(%s) = %q, %v", v.prints, rest, err)
		}
		if _, err := ParseDirectoryKey(append(row, 0x05), prefix); err == nil { // a UUID that has no bytes
			t.Errorf("ParseDirectoryKey takes %s with a piece of another element", v.prints)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	key := QueueMessage.Append(nil, 7)
	hash := &WorkflowHash{}
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
		StreamItem.Append(buf, "tokens", 7)
		ScheduleRun.Append(buf, "nightly", "", 7)
		Expiry.Append(buf, 7, key)
		WorkflowBlob.Append(buf, hash, 7)
		SQLiteChunk.Append(buf, SQLiteMain, 7)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
