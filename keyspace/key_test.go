package keyspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testID is the actor of the examples: slot 0x1234, created 1771891200.
var testID = NewActorID(0x1234, 1771891200, [10]byte{0xFF, 1, 0xFF, 3, 4, 5, 6, 7, 8, 9})

const testIDHex = "12 34 69 9C EA 00 8F 01 BF 03 04 05 06 07 08 09"

func userKV(elements ...any) UserKV {
	packed, err := tuple.Tuple(elements).Pack()
	if err != nil {
		panic(err)
	}
	return UserKV{packed}
}

// keyVectors has every form of logical key with its bytes and how it prints.
var keyVectors = []struct {
	hex    string
	key    Key
	prints string
}{
	{"01", Persisted{}, "persisted"},
	{"02 63 31", Connection{"c1"}, `connection("c1")`},
	{"03", InspectorToken{}, "inspector-token"},
	{"04", userKV(), "kv()"},
	{"04 01 66 6F 6F 00", userKV([]byte("foo")), `kv(x"666f6f")`},
	{"04 02 75 73 65 72 73 00 15 2A", userKV("users", 42), `kv("users", 42)`},
	{"04 21 BF F8 00 00 00 00 00 00 27", userKV(1.5, true), "kv(1.5, true)"},
	{"05 00 00 00 00 00 00 00 01", QueueMessage{1}, "queue/1"},
	{"05 00 00 00 00 00 00 01 02", QueueMessage{258}, "queue/258"},
	{"06", QueueMetadata{}, "queue-metadata"},
	{"07 15 01 14", WorkflowName{0}, "workflow/name 0"},
	{"07 15 01 15 01", WorkflowName{1}, "workflow/name 1"},
	{"07 15 01 15 FF", WorkflowName{255}, "workflow/name 255"},
	{"07 15 01 16 01 00", WorkflowName{256}, "workflow/name 256"},
	{"07 15 02 14", WorkflowHistory{Location{{Name: 0}}}, "workflow/history[0]"},
	{"07 15 02 15 03 15 05", WorkflowHistory{Location{{Name: 3}, {Name: 5}}}, "workflow/history[3, 5]"},
	{"07 15 02 15 03 05 15 03 15 07 00 15 05", WorkflowHistory{Location{{Name: 3}, {Name: 3, Loop: true, Iteration: 7}, {Name: 5}}}, "workflow/history[3, loop 3 #7, 5]"},
	{"07 15 02 15 01 05 15 01 14 00 15 02", WorkflowHistory{Location{{Name: 1}, {Name: 1, Loop: true}, {Name: 2}}}, "workflow/history[1, loop 1 #0, 2]"},
	{"07 15 03 15 01", FieldState, "workflow/state"},
	{"07 15 03 15 02", FieldOutput, "workflow/output"},
	{"07 15 03 15 03", FieldError, "workflow/error"},
	{"07 15 03 15 04", FieldVersion, "workflow/version"},
	{"07 15 03 15 05", FieldInput, "workflow/input"},
	{"07 15 03 15 06", FieldControl, "workflow/control"},
	{"07 15 03 15 07", FieldRun, "workflow/run"},
	{"07 15 03 15 08", FieldPublished, "workflow/published"},
	{"07 15 03 15 09", FieldPause, "workflow/pause"},
	{"07 15 04 02 61 62 63 00", WorkflowEntry{"abc"}, `workflow/entry("abc")`},
	{"07 15 04 02 61 62 00 FF 63 00", WorkflowEntry{"ab\x00c"}, `workflow/entry("ab\x00c")`},
	{"07 15 04 02 36 37 62 34 36 63 35 66 2d 38 32 31 61 2d 34 32 66 61 2d 62 64 33 33 2d 39 62 39 39 36 38 62 64 62 34 35 30 00", WorkflowEntry{"67b46c5f-821a-42fa-bd33-9b9968bdb450"}, `workflow/entry("67b46c5f-821a-42fa-bd33-9b9968bdb450")`},
	{"07 15 04 14", WorkflowMetadata{0}, "workflow/entry 0"},
	{"07 15 04 16 01 2C", WorkflowMetadata{300}, "workflow/entry 300"},
	{"07 15 05 15 01", WorkflowUndo{1}, "workflow/undo 1"},
	{"07 15 05 1A 01 9C 8C F2 10 00", WorkflowUndo{0x019C8CF21000}, "workflow/undo 1771891200000"},
	{"07 15 06 15 02", WorkflowMessage{2}, "workflow/inbox 2"},
	{"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00", WorkflowBlob{Hash: sha256.Sum256([]byte("hello"))}, "workflow/blob 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
	{"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 15 07", WorkflowBlob{Hash: sha256.Sum256([]byte("hello")), Chunk: 7}, "workflow/blob 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824/chunk 7"},
	{"07 15 08 01 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00 FF 00", WorkflowBlob{}, "workflow/blob 0000000000000000000000000000000000000000000000000000000000000000"},
	{"08 15 01 18 69 9C EA 00 14", TraceChunk{1771891200, 0}, "trace/1771891200/chunk 0"},
	{"08 15 01 18 69 9C EA 00 15 01", TraceChunk{1771891200, 1}, "trace/1771891200/chunk 1"},
	{"08 15 01 18 69 9C EA 00 16 01 2C", TraceChunk{1771891200, 300}, "trace/1771891200/chunk 300"},
	{"09 00 00", SQLiteMetadata{SQLiteMain}, "sqlite/main/metadata"},
	{"09 00 01", SQLiteMetadata{SQLiteJournal}, "sqlite/journal/metadata"},
	{"09 00 02", SQLiteMetadata{SQLiteWAL}, "sqlite/wal/metadata"},
	{"09 00 03", SQLiteMetadata{SQLiteSHM}, "sqlite/shm/metadata"},
	{"09 01 00 00 00 00 00", SQLiteChunk{SQLiteMain, 0}, "sqlite/main/chunk 0"},
	{"09 01 00 00 00 00 01", SQLiteChunk{SQLiteMain, 1}, "sqlite/main/chunk 1"},
	{"09 01 01 00 00 01 02", SQLiteChunk{SQLiteJournal, 258}, "sqlite/journal/chunk 258"},

	{"10 02 72 65 6D 69 6E 64 00 02 00", Alarm{"remind", ""}, `alarm("remind", "")`},
	{"10 02 72 65 6D 69 6E 64 00 02 37 00", Alarm{"remind", "7"}, `alarm("remind", "7")`},
	{"11 1A 01 9C 8C F2 10 00 01 04 02 75 73 65 72 73 00 FF 15 2A 00", Expiry{1771891200000, userKV("users", 42).Append(nil)}, `expiry(1771891200000, kv("users", 42))`},
	{"12 02 6F 72 64 65 72 2D 37 00", Idempotency{"order-7"}, `idempotency("order-7")`},
	{"13" + testIDHex, Received{testID}, "received/1234699c-ea00-8f01-bf03-040506070809"},
	{"14 00 00 00 00 00 00 00 01", Outgoing{1}, "outgoing/1"},
	{"15 00 00 00 00 00 00 01 02", FailedSend{258}, "failed-send/258"},
	{"16 00 00 00 00 00 00 00 01", Event{1}, "event/1"},
	{"17 02 6A 6F 62 73 00 13 FA 15 07", QueueReady{"jobs", -5, 7}, `queue-ready("jobs", -5, 7)`},
	{"18 02 6A 6F 62 73 00 1A 01 9C 8C F2 10 00 15 07", QueueDelayed{"jobs", 1771891200000, 7}, `queue-delayed("jobs", 1771891200000, 7)`},
	{"19 02 6A 6F 62 73 00", QueueStats{"jobs"}, `queue-stats("jobs")`},
	{"1A 02 6A 6F 62 73 00 16 01 02", DeadLetter{"jobs", 258}, `dead-letter("jobs", 258)`},
	{"1B 02 6A 6F 62 73 00 02 6F 72 64 65 72 2D 37 00", QueueDedup{"jobs", "order-7"}, `queue-dedup("jobs", "order-7")`},
	{"1C 00 00 00 00 00 00 00 07", QueueReply{7}, `queue-reply/7`},
	{"1D 02 6E 69 67 68 74 6C 79 00 02 00", Schedule{"nightly", ""}, `schedule("nightly", "")`},
	{"1E 02 6E 69 67 68 74 6C 79 00 02 00 15 07", ScheduleRun{"nightly", "", 7}, `schedule-run("nightly", "", 7)`},
	{"1F 02 74 6F 6B 65 6E 73 00", Stream{"tokens"}, `stream("tokens")`},
	{"20 02 74 6F 6B 65 6E 73 00 16 01 02", StreamItem{"tokens", 258}, `stream-item("tokens", 258)`},
	{"21", Control{}, `control`},
	{"22", Run{}, `run`},
}

func TestKeyVectors(t *testing.T) {
	for _, v := range keyVectors {
		want := unhex(t, v.hex)
		if got := v.key.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes %x, want %x", v.prints, got, want)
		}
		if got := v.key.Append([]byte("before")); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%s does not append: %x", v.prints, got)
		}
		got, err := Parse(want)
		if err != nil {
			t.Errorf("%s: %v", v.prints, err)
			continue
		}
		if !reflect.DeepEqual(got, v.key) && !bytes.Equal(got.Append(nil), want) {
			t.Errorf("%x parses to %#v, want %#v", want, got, v.key)
		}
		if reflect.TypeOf(got) != reflect.TypeOf(v.key) {
			t.Errorf("%x parses to a %T, want a %T", want, got, v.key)
		}
		if got.Kind() != Kind(want[0]) {
			t.Errorf("%x has kind %v", want, got.Kind())
		}
		if got := Format(want); got != v.prints {
			t.Errorf("%x prints %s, want %s", want, got, v.prints)
		}
	}
}

func TestEveryKindHasAVectorAndAName(t *testing.T) {
	seen := map[Kind]bool{}
	for _, v := range keyVectors {
		seen[v.key.Kind()] = true
	}
	for i, info := range Kinds() {
		if !seen[info.Kind] {
			t.Errorf("no vector for kind %v", info.Kind)
		}
		if info.Name != info.Kind.String() || strings.HasPrefix(info.Name, "kind ") {
			t.Errorf("kind %#x is called %q in the table and %q by String", byte(info.Kind), info.Name, info.Kind)
		}
		if info.Owner == "" || info.Value == "" {
			t.Errorf("the table says too little about %v", info.Kind)
		}
		if i > 0 && Kinds()[i-1].Kind >= info.Kind {
			t.Errorf("the table is out of order at %v", info.Kind)
		}
	}
	if len(seen) != len(Kinds()) {
		t.Errorf("%d kinds have vectors, the table has %d", len(seen), len(Kinds()))
	}
	if got := Kind(0x0A).String(); got != "kind 0x0a" {
		t.Errorf("unknown kind is called %q", got)
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
		"token and more":            {"03 03", 1, "bytes after"},
		"user key not a tuple":      {"04 61", 1, "unknown code"},
		"user key, bad integer":     {"04 02 61 00 16 00 01", 5, "leading zero"},
		"queue message short":       {"05 00 00", 3, "eight bytes"},
		"queue message long":        {"05 00 00 00 00 00 00 00 01 00", 9, "eight bytes"},
		"queue message zero":        {"05 00 00 00 00 00 00 00 00", 1, "below the first"},
		"queue metadata and more":   {"06 01", 1, "bytes after"},
		"workflow without family":   {"07", 1, "want integer"},
		"workflow family":           {"07 15 07 14", 1, "unknown family 7"},
		"workflow big family":       {"07 16 01 02 14", 1, "unknown family 258"},
		"workflow name":             {"07 15 01 02 00", 3, "want integer"},
		"workflow name too big":     {"07 15 01 19 01 00 00 00 00", 3, "32 bits"},
		"workflow name and more":    {"07 15 01 14 14", 4, "bytes after"},
		"workflow empty location":   {"07 15 02", 3, "empty location"},
		"workflow negative segment": {"07 15 02 13 FE", 3, "outside the range"},
		"workflow loop of one":      {"07 15 02 05 15 03 00", 6, "found end"},
		"workflow loop of three":    {"07 15 02 05 14 14 14 00", 6, "want end"},
		"workflow nested loop":      {"07 15 02 05 05 14 14 00 00", 4, "want integer"},
		"workflow field":            {"07 15 03 15 0A", 3, "unknown field 10"},
		"workflow field zero":       {"07 15 03 14", 3, "unknown field 0"},
		"workflow entry":            {"07 15 04 27", 3, "want string"},
		"workflow entry too big":    {"07 15 04 19 01 00 00 00 00", 3, "32 bits"},
		"workflow undo":             {"07 15 05 02 00", 3, "want integer"},
		"workflow inbox":            {"07 15 06 13 FE", 3, "outside the range"},
		"workflow blob":             {"07 15 08 15 01", 3, "want bytes"},
		"workflow short hash":       {"07 15 08 01 61 00", 3, "hash of 1 bytes"},
		"workflow chunk zero":       {"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 14", 37, "below the first"},
		"workflow chunk and more":   {"07 15 08 01 2C F2 4D BA 5F B0 A3 0E 26 E8 3B 2A C5 B9 E2 9E 1B 16 1E 5C 1F A7 42 5E 73 04 33 62 93 8B 98 24 00 15 01 14", 39, "bytes after"},
		"trace family":              {"08 15 02 14 14", 1, "unknown family 2"},
		"trace without chunk":       {"08 15 01 14", 4, "found end"},
		"trace and more":            {"08 15 01 14 14 14", 5, "bytes after"},
		"sqlite short":              {"09 00", 2, "cut short"},
		"sqlite file":               {"09 00 04", 2, "unknown file 4"},
		"sqlite form":               {"09 02 00", 1, "unknown form 2"},
		"sqlite metadata long":      {"09 00 00 00", 3, "bytes after"},
		"sqlite chunk short":        {"09 01 00 00 00", 5, "four bytes"},
		"sqlite chunk long":         {"09 01 00 00 00 00 00 00", 7, "four bytes"},
		"alarm without instance":    {"10 02 61 00", 4, "found end"},
		"alarm and more":            {"10 02 61 00 02 00 14", 6, "bytes after"},
		"expiry without key":        {"11 14", 2, "found end"},
		"expiry of nothing":         {"11 14 01 00", 3, "can expire"},
		"expiry of an expiry":       {"11 14 01 11 14 00", 3, "can expire"},
		"idempotency bytes":         {"12 01 00", 1, "want string"},
		"received short":            {"13 00", 2, "16 bytes"},
		"received long":             {"13" + testIDHex + "00", 17, "16 bytes"},
		"outgoing short":            {"14", 1, "eight bytes"},
		"failed send short":         {"15", 1, "eight bytes"},
		"event zero":                {"16 00 00 00 00 00 00 00 00", 1, "below the first"},
	} {
		key := unhex(t, c.hex)
		got, err := Parse(key)
		var syntax *SyntaxError
		if got != nil || !errors.As(err, &syntax) {
			t.Errorf("%s: got %v (%v)", name, got, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%s: %v, want byte %d: %s", name, err, c.offset, c.reason)
		}
		if printed := Format(key); !strings.Contains(printed, `?x"`+hex.EncodeToString(key)) {
			t.Errorf("%s prints %s", name, printed)
		}
	}
}

// Each specific parser refuses the keys of all other kinds.
func TestParsersRefuseOtherKinds(t *testing.T) {
	parsers := map[Kind][]func([]byte) error{
		KindPersisted:      {ParsePersisted},
		KindConnections:    {func(b []byte) error { _, err := ParseConnection(b); return err }},
		KindInspectorToken: {ParseInspectorToken},
		KindUserKV: {
			func(b []byte) error { _, err := ParseUserKV(b); return err },
			func(b []byte) error { _, err := ParseUserTuple(b); return err },
		},
		KindQueueMessages: {func(b []byte) error { _, err := ParseQueueMessage(b); return err }},
		KindQueueMetadata: {ParseQueueMetadata},
		KindWorkflow:      {func(b []byte) error { _, err := ParseWorkflow(b); return err }},
		KindTraces:        {func(b []byte) error { _, err := ParseTraceChunk(b); return err }},
		KindSQLite:        {func(b []byte) error { _, err := ParseSQLite(b); return err }},
		KindAlarms:        {func(b []byte) error { _, err := ParseAlarm(b); return err }},
		KindExpiry:        {func(b []byte) error { _, err := ParseExpiry(b); return err }},
		KindIdempotency:   {func(b []byte) error { _, err := ParseIdempotency(b); return err }},
		KindReceived:      {func(b []byte) error { _, err := ParseReceived(b); return err }},
		KindOutgoing:      {func(b []byte) error { _, err := ParseOutgoing(b); return err }},
		KindFailedSends:   {func(b []byte) error { _, err := ParseFailedSend(b); return err }},
		KindEventHistory:  {func(b []byte) error { _, err := ParseEvent(b); return err }},
		KindQueueReady:    {func(b []byte) error { _, err := ParseQueueReady(b); return err }},
		KindQueueDelayed:  {func(b []byte) error { _, err := ParseQueueDelayed(b); return err }},
		KindQueueStats:    {func(b []byte) error { _, err := ParseQueueStats(b); return err }},
		KindDeadLetters:   {func(b []byte) error { _, err := ParseDeadLetter(b); return err }},
		KindQueueDedup:    {func(b []byte) error { _, err := ParseQueueDedup(b); return err }},
		KindQueueReplies:  {func(b []byte) error { _, err := ParseQueueReply(b); return err }},
		KindSchedules:     {func(b []byte) error { _, err := ParseSchedule(b); return err }},
		KindScheduleRuns:  {func(b []byte) error { _, err := ParseScheduleRun(b); return err }},
		KindStreams:       {func(b []byte) error { _, err := ParseStream(b); return err }},
		KindStreamItems:   {func(b []byte) error { _, err := ParseStreamItem(b); return err }},
		KindControl:       {ParseControl},
		KindRun:           {ParseRun},
	}
	for _, info := range Kinds() {
		if len(parsers[info.Kind]) == 0 {
			t.Errorf("no parser for %v", info.Kind)
		}
		for _, parse := range parsers[info.Kind] {
			for _, v := range keyVectors {
				err := parse(unhex(t, v.hex))
				if accepted := err == nil; accepted != (v.key.Kind() == info.Kind) {
					t.Errorf("parser of %v, key %s: %v", info.Kind, v.prints, err)
				}
			}
			if parse(nil) == nil {
				t.Errorf("parser of %v accepts no bytes", info.Kind)
			}
		}
	}
}

// Each parser of a family of workflow or SQLite keys refuses the other families.
func TestFamilyParsersRefuseOtherFamilies(t *testing.T) {
	for _, v := range keyVectors {
		key := unhex(t, v.hex)
		_, isName := v.key.(WorkflowName)
		if index, err := ParseWorkflowName(key); (err == nil) != isName || isName && index != v.key.(WorkflowName).Index {
			t.Errorf("ParseWorkflowName(%s) = %d, %v", v.prints, index, err)
		}
		_, isHistory := v.key.(WorkflowHistory)
		if location, err := ParseWorkflowHistory(key); (err == nil) != isHistory || isHistory && !reflect.DeepEqual(location, v.key.(WorkflowHistory).Location) {
			t.Errorf("ParseWorkflowHistory(%s) = %v, %v", v.prints, location, err)
		}
		_, isField := v.key.(WorkflowField)
		if field, err := ParseWorkflowField(key); (err == nil) != isField || isField && field != v.key {
			t.Errorf("ParseWorkflowField(%s) = %v, %v", v.prints, field, err)
		}
		_, isNumbered := v.key.(WorkflowMetadata)
		if n, err := ParseWorkflowMetadata(key); (err == nil) != isNumbered || isNumbered && n != v.key.(WorkflowMetadata).Number {
			t.Errorf("ParseWorkflowMetadata(%s) = %d, %v", v.prints, n, err)
		}
		_, isUndo := v.key.(WorkflowUndo)
		if n, err := ParseWorkflowUndo(key); (err == nil) != isUndo || isUndo && n != v.key.(WorkflowUndo).Number {
			t.Errorf("ParseWorkflowUndo(%s) = %d, %v", v.prints, n, err)
		}
		_, isInbox := v.key.(WorkflowMessage)
		if n, err := ParseWorkflowMessage(key); (err == nil) != isInbox || isInbox && n != v.key.(WorkflowMessage).Number {
			t.Errorf("ParseWorkflowMessage(%s) = %d, %v", v.prints, n, err)
		}
		_, isBlob := v.key.(WorkflowBlob)
		if blob, err := ParseWorkflowBlob(key); (err == nil) != isBlob || isBlob && blob != v.key {
			t.Errorf("ParseWorkflowBlob(%s) = %v, %v", v.prints, blob, err)
		}
		_, isEntry := v.key.(WorkflowEntry)
		if id, err := ParseWorkflowEntry(key); (err == nil) != isEntry || isEntry && id != v.key.(WorkflowEntry).ID {
			t.Errorf("ParseWorkflowEntry(%s) = %q, %v", v.prints, id, err)
		}
		_, isMetadata := v.key.(SQLiteMetadata)
		if file, err := ParseSQLiteMetadata(key); (err == nil) != isMetadata || isMetadata && file != v.key.(SQLiteMetadata).File {
			t.Errorf("ParseSQLiteMetadata(%s) = %v, %v", v.prints, file, err)
		}
		_, isChunk := v.key.(SQLiteChunk)
		if file, index, err := ParseSQLiteChunk(key); (err == nil) != isChunk || isChunk && (SQLiteChunk{file, index}) != v.key {
			t.Errorf("ParseSQLiteChunk(%s) = %v, %d, %v", v.prints, file, index, err)
		}
	}
}

func TestAppendUserTuple(t *testing.T) {
	got, err := AppendUserTuple([]byte("x"), tuple.Tuple{"users", 42})
	if err != nil || !bytes.Equal(got[1:], unhex(t, "04 02 75 73 65 72 73 00 15 2A")) {
		t.Errorf("got %x (%v)", got, err)
	}
	got, err = AppendUserTuple([]byte("x"), tuple.Tuple{struct{}{}})
	if !errors.Is(err, tuple.ErrType) || string(got) != "x" {
		t.Errorf("got %x (%v)", got, err)
	}
}

// Values that no constructor of a sound key makes must still print.
func TestUnsoundKeysPrint(t *testing.T) {
	nested := Expiry{1, Expiry{2, []byte{1}}.Append(nil)}
	for _, c := range []struct {
		key  Key
		want string
	}{
		{UserKV{[]byte{0xEE}}, `kv?x"ee"`},
		{WorkflowField(10), "workflow/field 10"},
		{SQLiteChunk{File: 9}, "sqlite/file 9/chunk 0"},
		{nested, `expiry(1, x"111502010100")`},
		{Expiry{1, nil}, `expiry(1, ?x"")`},
	} {
		if got := c.key.String(); got != c.want {
			t.Errorf("prints %s, want %s", got, c.want)
		}
	}
}
