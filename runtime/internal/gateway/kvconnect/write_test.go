package kvconnect_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

func TestWritesAreCheckedAndDoneTogether(t *testing.T) {
	d := open(t, serve.Options{})
	first := d.commit(mutate(set, key("a"), isV8, bigint(1)), mutate(set, key("a"), isV8, bigint(2)),
		mutate(remove, key("b"), isV8, bigint(0), 4, 0, 5, []byte{}))
	same(t, d.get(key("a")), "01 "+hex.EncodeToString(bigint(2)))
	again := d.commit()
	errorIf(t, again <= first, "an empty write has %x after %x", again, first)
	check := func(parts ...any) []byte { return message(1, message(parts...)) }
	absent := check(1, key("none"))
	for _, c := range []struct {
		checks []byte
		want   string
	}{
		{check(1, key("a"), 2, []byte(first)), ""},
		{append(absent, absent...), ""},
		{append(absent, check(1, key("b"), 2, []byte(first))...), "failed [1]"},
		{bytes.Join([][]byte{check(1, key("b")), absent, check(1, key("b"), 2, []byte{})}, nil), "failed [0 2]"},
		{check(1, key("none"), 2, make([]byte, 10)), "failed [0]"},
		{check(1, key("b"), 2, []byte(first[:8]+"\x00\x01")), "failed [0]"},
	} {
		got := d.commit(c.checks, mutate(set, key("b"), isBytes, []byte(c.want)))
		errorIf(t, got != c.want && (c.want != "" || len(got) != 10), "%x: %q, not %q", c.checks, got, c.want)
	}
	same(t, d.get(key("b")), "03 ")
	for _, c := range []struct {
		status int
		text   string
		body   []byte
	}{
		{400, "mutations[1]", append(mutate(set, key("side"), isBytes, nil), mutate(sum, key("b"), isU64, u64(1))...)},
		{400, "and not 8", mutate(set, key("a"), isU64, make([]byte, 7))},
		{400, "and not 8", mutate(sum, key("a"), isU64, make([]byte, 9))},
		{413, "2048", mutate(setStamp, key(strings.Repeat("k", 2030)), isBytes, nil)},
		{400, "checks[0]: the versionstamp has 3 bytes", check(1, key("a"), 2, []byte("abc"))},
		{400, "more than 10 checks", bytes.Repeat(absent, 11)},
		{400, "more than 1000 mutations", bytes.Repeat(mutate(remove, key("a"), 0, nil), 1001)},
		{400, "1001 mutations and enqueues",
			append(bytes.Repeat(mutate(remove, key("a"), 0, nil), 1000), message(3, message(1, bigint(1)))...)},
		{413, "819200", bytes.Repeat(mutate(set, key("a"), isBytes, make([]byte, 60000)), 14)},
		{413, "mutations[0]: bytes of the value: 65537", mutate(set, key("a"), isBytes, make([]byte, 65537))},
		{413, "mutations[0]: bytes of the key: 2049", mutate(set, key(strings.Repeat("k", 2047)), isBytes, nil)},
		{400, "expire_at_ms is -2", mutate(set, key("a"), isBytes, nil, 4, int64(-2))},
		{400, "mutations[0]: expire_at_ms is more than 100 years",
			mutate(set, key("a"), isBytes, nil, 4, time.Now().AddDate(101, 0, 0).UnixMilli())},
		{400, "mutations[0]: expire_at_ms is more than 100 years", mutate(set, key("a"), isBytes, nil, 4, int64(math.MaxInt64))},
		{400, "the mutation_type 0", mutate(0, key("a"), isBytes, nil)},
		{400, "the mutation_type 8", mutate(8, key("a"), isBytes, nil)},
		{400, "the encoding 0", mutate(set, key("a"), 0, nil)},
		{400, "the encoding 4", mutate(set, key("a"), 4, nil)},
		{400, "serialized by V8", mutate(set, key("a"), isV8, []byte("x"))},
		{400, "the operand of max is no KvU64", mutate(most, key("a"), isV8, bigint(1))},
		{400, "the operand of min is no KvU64", mutate(least, key("a"), isBytes, nil)},
		{400, "not a number", mutate(sum, key("a"), isBytes, nil)},
		{400, "do not apply to a KvU64", mutate(sum, key("a"), isU64, u64(1), 5, bigint(1))},
		{400, "not a message", []byte("x")},
	} {
		d.refuse(c.status, c.text, c.body)
	}
	same(t, d.get(key("side")), "")
	// The versionstamp becomes the last part of the key, in hexadecimal.
	stamp := d.commit(mutate(setStamp, key("log"), isBytes, []byte("x")))
	if got := d.get(key("log", hex.EncodeToString([]byte(stamp)))); got != "03 78" || d.get(key("log")) != "" {
		t.Errorf("%q, and %q without the versionstamp", got, d.get(key("log")))
	}
}

// Clients of Deno KV send tuples. Any other key would end their listings with an error.
func TestKeysThatAreNoTuplesAreRefused(t *testing.T) {
	d := open(t, serve.Options{})
	for _, k := range [][]byte{
		{}, {1}, {0xFF}, []byte("hello"), {0}, []byte("\x02a"), []byte("\x02\xff\x00"), {0x16, 0, 1}, {0x05,
			0x00}, append([]byte{0x30}, make([]byte, 16)...), {0x20, 0, 0, 0, 0},
		append(key("a"), 0xFF), {0x21, 0xFF, 0xF8, 0, 0, 0, 0, 0, 1}, {0x21, 0, 7, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
	} {
		d.refuse(400, "key", mutate(set, k, isBytes, nil))
		d.refuse(400, "key", mutate(remove, k, isBytes, nil))
		d.refuse(400, "key", message(1, message(1, k)))
	}
	for _, parts := range []tuple.Tuple{{""}, {[]byte{}}, {new(big.Int).Lsh(big.NewInt(1), 2000)}, {strings.Repeat("a", 2046)}} {
		d.commit(mutate(set, key(parts...), isBytes, nil))
	}
	// NaN, Infinity, -0
	for _, k := range [][]byte{{0x21, 0xFF, 0xF8, 0, 0, 0, 0, 0, 0}, {0x21, 0xFF, 0xF0, 0, 0, 0, 0, 0, 0},
		{0x21, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}} {
		if d.commit(mutate(set, k, isBytes, []byte("x"))); d.get(k) != "03 78" {
			t.Errorf("%x is not found", k)
		}
	}
}

func TestNumbersAreSummed(t *testing.T) {
	d := open(t, serve.Options{})
	a := key("a")
	isBig := func(n int64) string { return "01 " + hex.EncodeToString(bigint(n)) }
	isDouble := func(f float64) string { return "01 " + hex.EncodeToString(v8.FromDouble(f)) }
	isU := func(n uint64) string { return "02 " + hex.EncodeToString(u64(n)) }
	for i, c := range []struct {
		first, then []byte
		want        string // of the entry, or the text of the error
	}{
		{nil, mutate(sum, a, isU64, u64(2)), isU(2)},
		{mutate(set, a, isU64, u64(1<<64-1)), mutate(sum, a, isU64, u64(2)), isU(1)},
		{mutate(set, a, isU64, u64(5)), mutate(least, a, isU64, u64(3)), isU(3)},
		{nil, mutate(sum, a, isV8, bigint(11), 6, bigint(10)), "mutations[0]: the result would be above the greatest"},
		{nil, mutate(sum, a, isV8, bigint(11), 6, bigint(10), 7, 1), isBig(10)},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isV8, bigint(-7)), isBig(-2)},
		{mutate(set, a, isV8, v8.FromDouble(5)), mutate(sum, a, isV8, []byte("\xff\x0f\x49\x03")), isDouble(3)},
		{mutate(set, a, isU64, u64(5)), mutate(sum, a, isV8, bigint(7)), isU(12)},
		{mutate(set, a, isU64, u64(5)), mutate(sum, a, isV8, bigint(-1)), "mutations[0]: the value that is stored"},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isU64, u64(7)), "mutations[0]: the value that is stored"},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isV8, v8.FromDouble(1)), "mutations[0]: the value that is stored"},
		{mutate(set, a, isV8, v8.FromText("x")), mutate(sum, a, isU64, u64(7)), "mutations[0]: the value that is stored"},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isV8, bigint(-7), 5, bigint(0), 7, 1), isBig(0)},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isV8, bigint(7), 5, []byte{}, 6, []byte{}, 7, 1), isBig(12)},
		{mutate(set, a, isV8, bigint(5)), mutate(sum, a, isV8, bigint(7), 6, v8.FromDouble(1)), "mutations[0]"},
	} {
		d.commit(mutate(remove, a, 0, nil))
		if c.first != nil {
			d.commit(c.first)
		}
		before := d.get(a)
		w := d.send("atomic_write", c.then)
		if w.Code == http.StatusBadRequest {
			errorIf(t, !strings.HasPrefix(w.Body.String(), c.want) || d.get(a) != before,
				"%d: %q, not %q; %s is now %s", i, w.Body, c.want, before, d.get(a))
		} else if got := d.get(a); w.Code != http.StatusOK || got != c.want {
			t.Errorf("%d: %d %q, %s, not %s", i, w.Code, w.Body, got, c.want)
		}
	}
}

func TestEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, serve.Options{})
		a, now := key("a"), time.Now()
		want := func(text string) {
			t.Helper()
			same(t, d.get(a), text, time.Since(now))
		}
		for _, never := range []int64{0, -1} {
			d.commit(mutate(set, key("never"), isBytes, nil, 4, never))
		}
		d.commit(mutate(set, a, isU64, u64(1), 4, now.Add(1500*time.Millisecond).UnixMilli()))
		for _, kind := range []int{sum, most, least} { // they keep the expiry
			d.commit(mutate(kind, a, isU64, u64(1), 4, 0))
		}
		time.Sleep(1499 * time.Millisecond)
		want("02 0100000000000000")
		time.Sleep(time.Millisecond)
		want("")
		d.commit(message(1, message(1, a)), mutate(set, a, isBytes, nil, 4, int64(1))) // long ago
		want("")
		d.commit(mutate(set, a, isBytes, []byte("x")), mutate(set, a, isBytes, nil, 4, time.Now().UnixMilli()))
		want("")
		d.commit(mutate(sum, a, isU64, u64(1), 4, time.Now().Add(time.Second).UnixMilli()))
		want("02 0100000000000000")
		time.Sleep(time.Second)
		want("")
		time.Sleep(time.Hour)
		errorIf(t, d.get(key("never")) == "", "it expired")
	})
}

// A failed check or mutation sends nothing.
func TestMessagesAreSentWithTheirCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, serve.Options{})
		enqueue := func(more ...any) []byte { return message(3, message(append([]any{1, bigint(1)}, more...)...)) }
		for _, c := range []struct {
			text string
			body []byte
		}{
			{"enqueues[0]: the deadline is more than 30 days", enqueue(2, time.Now().Add(31*24*time.Hour).UnixMilli())},
			{"enqueues[0]: the backoff_schedule has a pause", enqueue(4, 3_600_001)},
			{"enqueues[0]: the backoff_schedule has more than 10", enqueue(4, make([]byte, 11))},
			{"enqueues[0]: the backoff_schedule has more than 10", enqueue(slices.Repeat([]any{4, 1}, 11)...)},
			{"enqueues[0]: keys_if_undelivered[0]: the key", enqueue(3, []byte("x"))},
			{"more than 10 keys_if_undelivered", message(3, bytes.Repeat(message(3, key("a")), 11))},
			{"enqueues[0]: the payload", message(3, message(1, []byte("x")))},
		} {
			d.refuse(400, c.text, c.body)
		}
		payload, err := v8.FromJSON([]byte(`{"job":1,"at":1.5,"list":[null,"x",9007199254740993]}`))
		must(t, err)
		d.commit(mutate(set, key("a"), isBytes, nil),
			message(3, message(1, payload, 2, time.Now().UnixMilli()-5)),
			message(3, message(1, bigint(-7), 2, time.Now().Add(30*24*time.Hour).UnixMilli(), 3,
				key("dead", []byte{1}, 2.0), 4, []byte{100})))
		out := d.Call("queue.stats", `{"queue":"kv"}`)
		errorIf(t, !strings.Contains(out, `"pending":1,"delayed":1`), "%v", out)
		same(t, d.commit(message(1, message(1, key("a"))), enqueue()), "failed [0]")
		d.refuse(400, "mutations[0]", mutate(sum, key("a"), isU64, u64(1)), enqueue())
		if out := d.Call("queue.stats", `{"queue":"kv"}`); !strings.Contains(out, `"pending":1,"delayed":1`) {
			t.Error(out)
		}
		d.open("/kv/x")
		d.refuse(404, `has no queue "kv"`, enqueue())
	})
}
