package keyspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	must(t, err)
	return b
}

// testID is the actor of the examples: slot 0x1234, created 1771891200.
var testID = NewActorID(0x1234, 1771891200, [10]byte{0xFF, 1, 0xFF, 3, 4, 5, 6, 7, 8, 9})

const testIDHex = "12 34 69 9C EA 00 8F 01 BF 03 04 05 06 07 08 09"

func userKV(elements ...any) []byte {
	packed, err := tuple.Tuple(elements).Pack()
	if err != nil {
		panic(err)
	}
	return UserKV.Append(nil, packed)
}

var hello = WorkflowHash(sha256.Sum256([]byte("hello")))

// keyVectors has keys of every layout, as bytes, as made by Append (nil for keys that this package
// cannot make), and as printed.
var keyVectors = []struct {
	hex    string
	made   []byte
	prints string
}{
	{"01", Persisted.Append(nil), "persisted"},
	{"02 63 31", Connection.Append(nil, "c1"), `connection("c1")`},
	{"03", nil, "inspector-token"},
	{"04", userKV(), "kv()"},
	{"04 01 66 6F 6F 00", userKV([]byte("foo")), `kv(x"666f6f")`},
	{"04 02 75 73 65 72 73 00 15 2A", userKV("users", 42), `kv("users", 42)`},
	{"04 21 BF F8 00 00 00 00 00 00 27", userKV(1.5, true), "kv(1.5, true)"},
	{"05 00 00 00 00 00 00 00 01", QueueMessage.Append(nil, 1), "queue/1"},
	{"05 00 00 00 00 00 00 01 02", QueueMessage.Append(nil, 258), "queue/258"},
	{"06", QueueMetadata.Append(nil), "queue-metadata"},
	{"07 15 01 14", WorkflowName.Append(nil, 0), "workflow/name 0"},
	{"07 15 01 16 01 00", WorkflowName.Append(nil, 256), "workflow/name 256"},
	{"07 15 02 14", nil, "workflow/history[0]"},
	{"07 15 02 15 03 15 05", nil, "workflow/history[3, 5]"},
	{"07 15 02 15 03 05 15 03 15 07 00 15 05", nil, "workflow/history[3, loop 3 #7, 5]"},
	{"07 15 02 15 01 05 15 01 14 00 15 02", nil, "workflow/history[1, loop 1 #0, 2]"},
	{"07 15 03 15 01", WorkflowField.Append(nil, FieldState), "workflow/state"},
	{"07 15 03 15 09", WorkflowField.Append(nil, FieldPause), "workflow/pause"},
	{"07 15 04 02 61 62 63 00", WorkflowEntry.Append(nil, "abc"), `workflow/entry("abc")`},
	{"07 15 04 02 61 62 00 FF 63 00", WorkflowEntry.Append(nil, "ab\x00c"), `workflow/entry("ab\x00c")`},
	{"07 15 04 14", WorkflowMetadata.Append(nil, 0), "workflow/entry 0"},
	{"07 15 04 16 01 2C", WorkflowMetadata.Append(nil, 300), "workflow/entry 300"},
	{"07 15 05 15 01", WorkflowUndo.Append(nil, 1), "workflow/undo 1"},
	{"07 15 05 1A 01 9C 8C F2 10 00", WorkflowUndo.Append(nil, 0x019C8CF21000), "workflow/undo 1771891200000"},
	{"07 15 06 15 02", WorkflowMessage.Append(nil, 2), "workflow/inbox 2"},
	{"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00",
		WorkflowBlob.Append(nil, &hello, 0), "workflow/blob 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
	{"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 15 07", WorkflowBlob.Append(nil, &hello, 7), "workflow/blob 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824/chunk 7"},
	{"07 15 08 01 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00", WorkflowBlob.Append(nil, &WorkflowHash{}, 0), "workflow/blob 0000000000000000000000000000000000000000000000000000000000000000"},
	{"08 15 01 18 69 9C EA 00 14", TraceChunk.Append(nil, 1771891200, 0), "trace/1771891200/chunk 0"},
	{"08 15 01 18 69 9C EA 00 16 01 2C", TraceChunk.Append(nil, 1771891200, 300), "trace/1771891200/chunk 300"},
	{"08 15 02 18 69 9C EA 00", TraceBucket.Append(nil, 1771891200), "trace/1771891200/totals"},
	{"09 00 00", SQLiteMetadata.Append(nil, SQLiteMain), "sqlite/main/metadata"},
	{"09 00 01", SQLiteMetadata.Append(nil, SQLiteJournal), "sqlite/journal/metadata"},
	{"09 00 02", SQLiteMetadata.Append(nil, 2), "sqlite/wal/metadata"},
	{"09 01 00 00 00 00 00", SQLiteChunk.Append(nil, SQLiteMain, 0), "sqlite/main/chunk 0"},
	{"09 01 01 00 00 01 02", SQLiteChunk.Append(nil, SQLiteJournal, 258), "sqlite/journal/chunk 258"},
	{"10 02 72 65 6D 69 6E 64 00 02 00", Alarm.Append(nil, "remind", ""), `alarm("remind", "")`},
	{"10 02 72 65 6D 69 6E 64 00 02 37 00", Alarm.Append(nil, "remind", "7"), `alarm("remind", "7")`},
	{"11 1A 01 9C 8C F2 10 00 01 04 02 75 73 65 72 73 00 FF 15 2A 00",
		Expiry.Append(nil, 1771891200000, userKV("users", 42)), `expiry(1771891200000, kv("users", 42))`},
	{"12 02 6F 72 64 65 72 2D 37 00", Idempotency.Append(nil, "order-7"), `idempotency("order-7")`},
	{"13" + testIDHex, Received.Append(nil, testID), "received/1234699c-ea00-8f01-bf03-040506070809"},
	{"14 00 00 00 00 00 00 00 01", Outgoing.Append(nil, 1), "outgoing/1"},
	{"15 00 00 00 00 00 00 01 02", FailedSend.Append(nil, 258), "failed-send/258"},
	{"16 00 00 00 00 00 00 00 01", Event.Append(nil, 1), "event/1"},
	{"17 02 6A 6F 62 73 00 13 FA 15 07", nil, `queue-ready("jobs", -5, 7)`},
	{"18 02 6A 6F 62 73 00 1A 01 9C 8C F2 10 00 15 07", nil, `queue-delayed("jobs", 1771891200000, 7)`},
	{"19 02 6A 6F 62 73 00", QueueStats.Append(nil, "jobs"), `queue-stats("jobs")`},
	{"1A 02 6A 6F 62 73 00 16 01 02", DeadLetter.Append(nil, "jobs", 258), `dead-letter("jobs", 258)`},
	{"1B 02 6A 6F 62 73 00 02 6F 72 64 65 72 2D 37 00", QueueDedup.Append(nil, "jobs", "order-7"), `queue-dedup("jobs", "order-7")`},
	{"1C 00 00 00 00 00 00 00 07", QueueReply.Append(nil, 7), `queue-reply/7`},
	{"1D 02 6E 69 67 68 74 6C 79 00 02 00", Schedule.Append(nil, "nightly", ""), `schedule("nightly", "")`},
	{"1E 02 6E 69 67 68 74 6C 79 00 02 00 15 07", ScheduleRun.Append(nil, "nightly", "", 7), `schedule-run("nightly", "", 7)`},
	{"1F 02 74 6F 6B 65 6E 73 00", Stream.Append(nil, "tokens"), `stream("tokens")`},
	{"20 02 74 6F 6B 65 6E 73 00 16 01 02", StreamItem.Append(nil, "tokens", 258), `stream-item("tokens", 258)`},
	{"21", Control.Append(nil), `control`},
	{"22", Run.Append(nil), `run`},
	{"23 01 04 00", KVScope.Append(nil, userKV()), `kv-scope(kv())`},
	{"23 01 04 02 75 73 65 72 73 00 FF 00", KVScope.Append(nil, userKV("users")), `kv-scope(kv("users"))`},
	{"24 01 04 02 75 73 65 72 73 00 FF 00", KVCount.Append(nil, userKV("users")), `kv-count(kv("users"))`},
	{"25 01 04 02 75 73 65 72 73 00 FF 00 02 65 75 00", KVGroup.Append(nil, userKV("users"), userKV("eu")[1:]),
		`kv-group(kv("users"), ("eu"))`},
	{"26 01 04 00 13 EE", KVVersion.Append(nil, userKV(), -17), `kv-version(kv(), -17)`},
	{"27 00 00 00 00 00 00 01 02", KVPin.Append(nil, 258), `kv-pin/258`},
	{"28", UUID.Append(nil), `uuid`},
	{"29", KVPurge.Append(nil), `kv-purge`},
	{"2A 01 04 02 75 73 65 72 73 00 FF 00", KVIndex.Append(nil, userKV("users")), `kv-index(kv("users"))`},
	{"2B 02 6E 6F 74 65 73 00", KVHandled.Append(nil, "notes"), `kv-handled("notes")`},
	{"2C 00 00 00 00 00 00 00 02", KVBranch.Append(nil, 2), `kv-branch/2`},
	{"2D 15 02 02 75 73 65 72 73 00 15 2A", KVBranchEntry.Append(nil, 2, userKV("users", 42)[1:]), `kv-branch-entry/2("users", 42)`},
	{"2E 02 6E 69 67 68 74 00", Token.Append(nil, "night"), `token("night")`},
	{"2F 00 00 00 00 00 00 51 30", Usage.Append(nil, 20784), "usage/20784"},
	{"30 02 70 6C 61 6E 00", Attribute.Append(nil, "plan"), `attribute("plan")`},
}

func TestKeyVectors(t *testing.T) {
	seen := map[*layout]bool{}
	for _, v := range keyVectors {
		want := unhex(t, v.hex)
		errorIf(t, v.made != nil && !bytes.Equal(v.made, want), "%s: bytes %x, want %x", v.prints, v.made, want)
		got := Format(want)
		errorIf(t, got != v.prints, "%x prints %s, want %s", want, got, v.prints)
		l, fields, bad := find(want)
		if bad != nil {
			t.Errorf("%s: %v", v.prints, bad)
			continue
		}
		seen[l] = true
		again := appendKey(t, l, &fields, want)
		errorIf(t, !bytes.Equal(again, want), "%x parses to %+v, which appends %x", want, fields, again)
		// No layout of another kind or family takes the key.
		for _, other := range layouts {
			err := other.parse(want, &values{})
			errorIf(t, (err == nil) != (other == l), "%s taken as %s: %v", v.prints, other.prints, err)
			if err := other.Kind.Check(want); (err == nil) != (other.Kind == l.Kind) {
				t.Errorf("%s checked as %v: %v", v.prints, other.Kind, err)
			}
		}
	}
	for i, l := range layouts {
		errorIf(t, !seen[l], "no vector for %s", l.prints)
		errorIf(t, i > 0 && bytes.Compare(layouts[i-1].lead(nil), l.lead(nil)) > 0, "the table is out of order at %s", l.prints)
		err := l.parse(nil, &values{})
		errorIf(t, err == nil, "%s accepts no bytes", l.prints)
	}
	for got, want := range map[string]string{Kind(0x0A).String(): "kind 0x0a", WakeKind(99).String(): "wake kind 99",
		WakeKind(0).String(): "wake kind 0", SQLiteFile(9).String(): "file 9"} {
		errorIf(t, got != want, "got %q, want %q", got, want)
	}
}

// appendKey appends the key of parsed fields by the encodings of the table. Append functions have
// their own code, so each checks the other.
func appendKey(t *testing.T, l *layout, v *values, key []byte) []byte {
	t.Helper()
	dst := l.lead(nil)
	for i, f := range l.fields {
		switch f.as {
		case asU64, asU64From1:
			dst = binary.BigEndian.AppendUint64(dst, v.n[i])
		case asU32:
			dst = binary.BigEndian.AppendUint32(dst, uint32(v.n[i]))
		case asFile:
			dst = append(dst, byte(v.n[i]))
		case asActor:
			dst = append(dst, v.b...)
		case asUTF8:
			dst = append(dst, v.s[i]...)
		case asString:
			dst = tuple.AppendString(dst, v.s[i])
		case asInt:
			dst = tuple.AppendInt(dst, int64(v.n[i]))
		case asHash, asKey:
			dst = tuple.AppendBytes(dst, v.b)
		case asLocation:
			for _, s := range v.at {
				if s.Loop {
					dst = tuple.EndNested(tuple.AppendUint(tuple.AppendUint(tuple.BeginNested(dst), uint64(s.Name)), uint64(s.Iteration)))
				} else {
					dst = tuple.AppendUint(dst, uint64(s.Name))
				}
			}
		case asElements:
			elements, err := tuple.Unpack(key[len(dst):])
			fatalIf(t, err != nil || elements.String() != v.s[i], "%x: %v (%v), parsed as %s", key, elements, err, v.s[i])
			packed, err := elements.Pack()
			must(t, err)
			dst = append(dst, packed...)
		default:
			dst = tuple.AppendUint(dst, v.n[i])
		}
	}
	return dst
}

// Parse of each type returns the fields in the order of Append.
func TestParseReturnsWhatAppendTakes(t *testing.T) {
	say := func(a ...any) string { return strings.TrimSuffix(fmt.Sprintln(a...), "\n") }
	for _, c := range []struct{ got, want string }{
		{say(Connection.Parse(Connection.Append(nil, "c1"))), "c1 <nil>"},
		{say(Outgoing.Parse(Outgoing.Append(nil, 7))), "7 <nil>"},
		{say(WorkflowMetadata.Parse(WorkflowMetadata.Append(nil, 300))), "300 <nil>"},
		{say(WorkflowField.Parse(WorkflowField.Append(nil, FieldPause))), "9 <nil>"},
		{say(WorkflowEntry.Parse(WorkflowEntry.Append(nil, "abc"))), "abc <nil>"},
		{say(QueueStats.Parse(QueueStats.Append(nil, "jobs"))), "jobs <nil>"},
		{say(Alarm.Parse(Alarm.Append(nil, "remind", "1"))), "remind 1 <nil>"},
		{say(DeadLetter.Parse(DeadLetter.Append(nil, "jobs", 258))), "jobs 258 <nil>"},
		{say(ScheduleRun.Parse(ScheduleRun.Append(nil, "nightly", "1", 7))), "nightly 1 7 <nil>"},
		{say(Expiry.Parse(Expiry.Append(nil, -1, []byte{4, 2}))), "-1 [4 2] <nil>"},
		{say(KVScope.Parse(KVScope.Append(nil, []byte{4, 2, 0}))), "[4 2 0] <nil>"},
		{say(KVVersion.Parse(KVVersion.Append(nil, []byte{4, 2, 0}, -17))), "[4 2 0] -17 <nil>"},
		{say(SQLiteChunk.Parse(SQLiteChunk.Append(nil, SQLiteJournal, 258))), "journal 258 <nil>"},
		{say(WorkflowHistory.Parse(unhex(t, "07 15 02 15 03 05 15 03 15 07 00"))), "[{3 false 0} {3 true 7}] <nil>"},
		{say(DeadLetter.Parse(StreamItem.Append(nil, "s", 1))), " 0 keyspace: dead-letter key: byte 0: found stream-item"},
		{say(WorkflowUndo.Parse(WorkflowName.Append(nil, 1))), "0 keyspace: workflow key: byte 1: key of another family"},
	} {
		errorIf(t, c.got != c.want, "got %s, want %s", c.got, c.want)
	}
}

func TestParseRefusesWithOffset(t *testing.T) {
	for name, c := range map[string]struct {
		hex    string
		offset int
		reason string
	}{
		"empty":                     {"", 0, "empty"},
		"unknown kind":              {"0A", 0, "unknown kind 0x0a"},
		"persisted and more":        {"01 00", 1, "bytes after"},
		"connection without id":     {"02", 1, "empty"},
		"connection not UTF-8":      {"02 63 FF", 2, "UTF-8"},
		"user key not a tuple":      {"04 61", 1, "unknown code"},
		"user key, bad integer":     {"04 02 61 00 16 00 01", 5, "leading zero"},
		"queue message short":       {"05 00 00", 3, "eight bytes"},
		"queue message zero":        {"05 00 00 00 00 00 00 00 00", 1, "below the first"},
		"workflow without family":   {"07", 1, "want integer"},
		"workflow family":           {"07 15 07 14", 1, "unknown family 7"},
		"workflow name":             {"07 15 01 02 00", 3, "want integer"},
		"workflow name too big":     {"07 15 01 19 01 00 00 00 00", 3, "32 bits"},
		"workflow name and more":    {"07 15 01 14 14", 4, "bytes after"},
		"workflow empty location":   {"07 15 02", 3, "empty location"},
		"workflow negative segment": {"07 15 02 13 FE", 3, "outside the range"},
		"workflow loop of one":      {"07 15 02 05 15 03 00", 6, "found end"},
		"workflow loop of three":    {"07 15 02 05 14 14 14 00", 6, "want end"},
		"workflow nested loop":      {"07 15 02 05 05 14 14 00 00", 4, "want integer"},
		"workflow field":            {"07 15 03 15 0A", 3, "unknown field 10"},
		"workflow entry":            {"07 15 04 27", 3, "want integer"},
		"workflow inbox":            {"07 15 06 13 FE", 3, "outside the range"},
		"workflow blob":             {"07 15 08 15 01", 3, "want bytes"},
		"workflow short hash":       {"07 15 08 01 61 00", 3, "hash of 1 bytes"},
		"workflow chunk zero":       {"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 14", 37, "below the first"},
		"workflow chunk and more":   {"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 15 01 14", 39, "bytes after"},
		"trace family":              {"08 15 03 14 14", 1, "unknown family 3"},
		"trace without chunk":       {"08 15 01 14", 4, "found end"},
		"trace and more":            {"08 15 01 14 14 14", 5, "bytes after"},
		"sqlite short":              {"09 00", 2, "one byte"},
		"sqlite file":               {"09 00 04", 2, "unknown file 4"},
		"sqlite form":               {"09 02 00", 1, "unknown form 2"},
		"sqlite chunk short":        {"09 01 00 00 00", 5, "four bytes"},
		"alarm without instance":    {"10 02 61 00", 4, "found end"},
		"alarm and more":            {"10 02 61 00 02 00 14", 6, "bytes after"},
		"expiry without key":        {"11 14", 2, "found end"},
		"expiry of nothing":         {"11 14 01 00", 3, "can expire"},
		"expiry of an expiry":       {"11 14 01 11 14 00", 3, "can expire"},
		"idempotency bytes":         {"12 01 00", 1, "want string"},
		"received short":            {"13 00", 2, "16 bytes"},
		"event zero":                {"16 00 00 00 00 00 00 00 00", 1, "below the first"},
	} {
		key := unhex(t, c.hex)
		l, v, bad := find(key)
		if bad == nil || l != nil || !reflect.DeepEqual(v, values{}) {
			t.Errorf("%s: got %v %+v (%v)", name, l, v, bad)
			continue
		}
		if bad.Offset != c.offset || !strings.Contains(bad.Reason, c.reason) {
			t.Errorf("%s: %v, want byte %d: %s", name, bad, c.offset, c.reason)
		}
		printed := Format(key)
		errorIf(t, !strings.Contains(printed, `?x"`+hex.EncodeToString(key)), "%s prints %s", name, printed)
	}
}
