package kvconnect_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// The defects of the reference implementation are counted as in the study of it. R11 is about restoring an earlier
// state, which this package does not do.

func TestR1AWriteThatFailsLaterKeepsNothing(t *testing.T) {
	d := open(t, serve.Options{})
	d.commit(mutate(set, key("text"), isV8, v8.FromText("x")))
	d.refuse(400, "mutations[1]", mutate(set, key("side"), isBytes, nil), mutate(sum, key("text"), isU64, u64(1)))
	if got := d.get(key("side")); got != "" {
		t.Errorf("there is %s", got)
	}
}

func TestR2ExpiredEntriesAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, serve.Options{})
		a := key("a")
		for _, never := range []int64{0, -1} {
			d.commit(mutate(set, key("never"), isBytes, nil, 4, never))
		}
		d.commit(mutate(set, a, isBytes, nil, 4, time.Now().Add(1500*time.Millisecond).UnixMilli()))
		time.Sleep(1499 * time.Millisecond)
		if d.get(a) == "" {
			t.Error("it expired early")
		}
		time.Sleep(time.Millisecond)
		if got := d.get(a); got != "" {
			t.Errorf("%s is expired", got)
		}
		d.commit(message(1, message(1, a)), mutate(set, a, isBytes, nil, 4, int64(1))) // long ago
		if got := d.get(a); got != "" {
			t.Errorf("%s is expired", got)
		}
		d.commit(mutate(set, a, isBytes, []byte("x")), mutate(set, a, isBytes, nil, 4, time.Now().UnixMilli()))
		if got := d.get(a); got != "" {
			t.Errorf("%s is expired", got)
		}
		time.Sleep(time.Hour)
		if d.get(key("never")) == "" {
			t.Error("it expired")
		}
	})
}

func TestR3NumbersKeepTheirTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, serve.Options{})
		a := key("a")
		d.commit(mutate(set, a, isU64, u64(1), 4, time.Now().Add(time.Minute).UnixMilli()))
		for _, kind := range []int{sum, most, least} {
			d.commit(mutate(kind, a, isU64, u64(1), 4, 0))
		}
		time.Sleep(59 * time.Second)
		if got := d.get(a); got != "02 0100000000000000" {
			t.Errorf("%s", got)
		}
		if time.Sleep(time.Second); d.get(a) != "" {
			t.Error("it does not expire")
		}
		d.commit(mutate(sum, a, isU64, u64(1), 4, time.Now().Add(time.Second).UnixMilli()))
		if time.Sleep(time.Second); d.get(a) != "" {
			t.Error("it does not expire")
		}
	})
}

func TestR5DelaysAreChecked(t *testing.T) {
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
			message(3, message(1, bigint(-7), 2, time.Now().Add(30*24*time.Hour).UnixMilli(), 3, key("dead", []byte{1}, 2.0), 4, []byte{100})))
		if out := d.call("queue.stats", `{"queue":"kv"}`); !strings.Contains(out, `"pending":1,"delayed":1`) {
			t.Error(out)
		}
		// A check that fails sends nothing.
		if got := d.commit(message(1, message(1, key("a"))), enqueue()); got != "failed [0]" {
			t.Error(got)
		}
		d.refuse(400, "mutations[0]", mutate(sum, key("a"), isU64, u64(1)), enqueue())
		if out := d.call("queue.stats", `{"queue":"kv"}`); !strings.Contains(out, `"pending":1,"delayed":1`) {
			t.Error(out)
		}
		d.open("/kv/x")
		d.refuse(404, `has no queue "kv"`, enqueue())
	})
}

func TestR6AU64HasEightBytes(t *testing.T) {
	d := open(t, serve.Options{})
	for _, n := range []int{0, 7, 9} {
		d.refuse(400, "and not 8", mutate(set, key("a"), isU64, make([]byte, n)))
		d.refuse(400, "and not 8", mutate(sum, key("a"), isU64, make([]byte, n)))
	}
}

func TestR7AKeyWithAVersionstampIsNoLongerThanAnyOther(t *testing.T) {
	d := open(t, serve.Options{})
	stamp := d.commit(mutate(setStamp, key("log"), isBytes, []byte("x")))
	suffixed := key("log", hex.EncodeToString([]byte(stamp)))
	if got := d.get(suffixed); got != "03 78" {
		t.Errorf("%q at %x", got, suffixed)
	}
	if got := d.get(key("log")); got != "" {
		t.Errorf("%q without the versionstamp", got)
	}
	d.refuse(413, "2048", mutate(setStamp, key(strings.Repeat("k", 2030)), isBytes, nil))
}

func TestR8FailedChecksAreNamed(t *testing.T) {
	d := open(t, serve.Options{})
	if got := d.commit(message(1, message(1, key("a"), 2, bytes.Repeat([]byte{1}, 10)))); got != "failed [0]" {
		t.Error(got)
	}
}

func TestR9TheFirstWriteIsBounded(t *testing.T) {
	d := open(t, serve.Options{})
	d.refuse(400, "above the greatest", mutate(sum, key("a"), isV8, bigint(11), 6, bigint(10)))
	d.commit(mutate(sum, key("a"), isV8, bigint(11), 6, bigint(10), 7, 1))
	if got := d.get(key("a")); got != "01 "+hex.EncodeToString(bigint(10)) {
		t.Error(got)
	}
}
