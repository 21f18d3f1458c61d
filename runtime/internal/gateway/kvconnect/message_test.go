package kvconnect

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	must(t, err)
	return b
}

var (
	aliceKey   = "0275736572730002616c69636500"
	aliceValue = "ff0f6f22016e49027b01"
)

// Requests of the npm client.
func TestRequestsAreRead(t *testing.T) {
	for _, c := range []struct {
		text string
		want atomicWrite
	}{
		{"122a 0a0e" + aliceKey + "120e0a0a" + aliceValue + "1001 1801 2000 2a00 3200 3800", atomicWrite{mutations: []mutation{
			{key: unhex(t, aliceKey), value: kvValue{unhex(t, aliceValue), encodingV8}, kind: mutationSet,
				sumMin: []byte{}, sumMax: []byte{}},
		}}},
		{"0a05 0a03026100 120f 0a03026100 1802 2000 2a00 3200 3800", atomicWrite{
			checks: []check{{key: unhex(t, "026100")}}, mutations: []mutation{{key: unhex(t, "026100"),
				kind: mutationDelete, sumMin: []byte{}, sumMax: []byte{}}},
		}},
		// The pauses come together or one by one, and unknown fields are skipped.
		{"1a11 0a01ff 1005 1a05 02646c7100 2203 64c801", atomicWrite{enqueues: []enqueue{
			{payload: []byte{0xFF}, deadlineMS: 5, keysIfUndelivered: [][]byte{unhex(t, "02646c7100")}, backoffMS: []uint32{100, 200}},
		}}},
		{"1a08 2064 20c801 5a01ff 7801", atomicWrite{enqueues: []enqueue{{backoffMS: []uint32{100, 200}}}}},
	} {
		got, err := parseAtomicWrite(unhex(t, c.text))
		errorIf(t, err != nil || !reflect.DeepEqual(*got, c.want), "%s: %+v, %v, not %+v", c.text, got, err, c.want)
	}
	ranges, err := parseSnapshotRead(unhex(t, "0a17 0a0e"+aliceKey+"1201ff 1801 2000"))
	if want := []readRange{{start: unhex(t, aliceKey), end: []byte{0xFF}, limit: 1}}; err != nil || !reflect.DeepEqual(ranges, want) {
		t.Errorf("%+v, %v", ranges, err)
	}
	ranges, err = parseSnapshotRead(unhex(t, "0a09 0a00 1201ff 1864 2001"))
	if want := []readRange{{start: []byte{}, end: []byte{0xFF}, limit: 100, reverse: true}}; err != nil ||
		!reflect.DeepEqual(ranges, want) {
		t.Errorf("%+v, %v", ranges, err)
	}
}

func TestAnswersAreWritten(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{appendAtomicWriteOutput(nil, kv.Stamp(1), nil), "0801 120a 00000000000000010000"},
		{appendAtomicWriteOutput(nil, nil, []int{0}), "0802 2201 00"},
		{appendSnapshotReadOutput(nil, [][]entry{{{unhex(t, aliceKey), kvValue{unhex(t, aliceValue), encodingV8}, kv.Stamp(1)}}}),
			"0a2c 0a2a 0a0e" + aliceKey + "120a" + aliceValue + "1801 220a 00000000000000010000 2001 4001"},
		{appendSnapshotReadOutput(nil, [][]entry{nil, nil}), "0a00 0a00 2001 4001"},
	} {
		if want := unhex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%x, not %x", c.got, want)
		}
	}
}

func TestMessagesThatAreNoneAreRefused(t *testing.T) {
	for _, text := range []string{"ff", "0a05", "0a02 0a05", "08", "1000", "12020a", "0b", "1a022205 ff", "0a020801",
		"12021201", "1a04 2202 80 80"} {
		w, err := parseAtomicWrite(unhex(t, text))
		errorIf(t, err == nil, "%s is read as %+v", text, w)
	}
}

// Messages whose repeated fields have millions of elements take a bounded memory. Too long a
// schedule is not kept.
func TestLongMessagesTakeBoundedMemory(t *testing.T) {
	const size = 16 << 20
	read := func(b []byte) error { return errOf(parseSnapshotRead(b)) }
	write := func(b []byte) error { return errOf(parseAtomicWrite(b)) }
	schedule := func(b []byte) error {
		w, err := parseAtomicWrite(appendBytes(nil, 3, b))
		if err != nil || len(w.enqueues[0].backoffMS) != maxPauses+1 {
			return nil
		}
		return errors.New("the schedule is too long")
	}
	for i, c := range []struct {
		parse   func([]byte) error
		element []byte
	}{{read, []byte{1<<3 | 2, 0}}, {write, []byte{1<<3 | 2, 0}}, {write, []byte{2<<3 | 2, 0}}, {write,
		[]byte{3<<3 | 2, 0}}, {schedule, []byte{4 << 3, 1}}} {
		body := bytes.Repeat(c.element, size/2)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.parse(body)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 4<<20 && i < 4 {
			t.Errorf("%x: %d bytes are allocated; %v", c.element, n, err)
		}
	}
}

// Any bytes are refused as a fault of the client, or are a commit that the store can decode.
func FuzzAtomicWrite(f *testing.F) {
	for _, text := range []string{
		"122a 0a0e" + aliceKey + "120e0a0a" + aliceValue +
			"1001 1801 2000 2a00 3200 3800", "0a05 0a03026100 120f 0a03026100 1802 2000 2a00 3200 3800",
		"1217 0a05 0263747200 120c 0a08 0200000000000000 1002 1803", "1a11 0a01ff 1005 1a05 02646c7100 2203 64c801",
	} {
		f.Add(unhex(f, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := parseAtomicWrite(b)
		if err != nil {
			return
		}
		in, err := w.commit(time.UnixMilli(0))
		c := host.CodeOf(err)
		fatalIf(t, err != nil && c != host.InvalidArgument && c != host.TooLarge, "%v", err)
		if err != nil {
			return
		}
		must(t, errOf(encoding.Marshal(in)))
		for i := range in.Mutations {
			key, err := in.Mutations[i].Key.Pack()
			fatalIf(t, err != nil || !bytes.Equal(key, w.mutations[i].key), "the key %x became %x, %v", w.mutations[i].key, key, err)
		}
	})
}

func FuzzWatch(f *testing.F) {
	f.Add(unhex(f, "0a06 0a0402773100 0a06 0a0402773200"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := new(watcher)
		watching, err := w.watching(b)
		c := host.CodeOf(err)
		fatalIf(t, err != nil && c != host.InvalidArgument && c != host.TooLarge, "%v", err)
		for i := range watching.Keys {
			if key, perr := watching.Keys[i].Pack(); err == nil && (perr != nil || !bytes.Equal(key, w.keys[i])) {
				t.Fatalf("the key %x became %x, %v", w.keys[i], key, perr)
			}
		}
	})
}

func FuzzSnapshotRead(f *testing.F) {
	f.Add(unhex(f, "0a17 0a0e"+aliceKey+"1201ff 1801 2000"))
	f.Add(unhex(f, "0a09 0a00 1201ff 1864 2000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ranges, err := parseSnapshotRead(b)
		if err != nil {
			return
		}
		for i := range ranges {
			r := &ranges[i]
			if r.check() != nil {
				continue
			}
			l := r.list()
			start, err := l.Start.PackBound()
			end, err2 := l.End.PackBound()
			fatalIf(t, err != nil || err2 != nil || !bytes.Equal(start, r.start) || !bytes.Equal(end, r.end),
				"%x, %x became %x, %x: %v, %v", r.start, r.end, start, end, err, err2)
		}
	})
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
