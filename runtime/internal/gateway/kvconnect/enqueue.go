package kvconnect

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// Queue is the actor's queue for messages of clients.
const Queue = "kv"

// The limits of an Enqueue, which clients rely on.
const (
	maxDelay   = 30 * 24 * time.Hour
	maxBackoff = time.Hour
	maxPauses  = 10
)

// translate sets a message from e. Its body is the payload in JSON.
func (e *enqueue) translate(to *host.QueueMessageInput, now time.Time) (err error) {
	if len(e.payload) > maxValue {
		return host.OverLimit("bytes of the payload", maxValue, int64(len(e.payload)))
	}
	payload, err := value.Stored(host.EncodedV8, e.payload)
	if err != nil {
		return refused("the payload is not serialized by V8")
	}
	// A past deadline counts as now. The comparison in milliseconds cannot overflow.
	ms := e.deadlineMS - now.UnixMilli()
	if e.deadlineMS > 0 && ms > maxDelay.Milliseconds() {
		return refused("the deadline is more than 30 days from now")
	}
	if e.deadlineMS > 0 {
		to.DelayMS = max(ms, 0)
	}
	if len(e.backoffMS) > maxPauses {
		return refused("the backoff_schedule has more than %d pauses", maxPauses)
	}
	for _, ms := range e.backoffMS {
		if int64(ms) > maxBackoff.Milliseconds() {
			return refused("the backoff_schedule has a pause of more than an hour")
		}
		to.BackoffMS = append(to.BackoffMS, int64(ms))
	}
	for i, b := range e.keysIfUndelivered {
		key, err := keyOf(b)
		if err != nil {
			return within(err, "keys_if_undelivered", i)
		}
		to.KeysIfUndelivered = append(to.KeysIfUndelivered, key)
	}
	text, err := payload.AppendJSON(nil)
	if err != nil {
		return err
	}
	to.Body, err = fromJSON(text)
	return err
}

// fromJSON translates JSON to CBOR. A number without fraction and exponent is an integer.
func fromJSON(text []byte) (host.Raw, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return cbor.Marshal(numbers(v))
}

// numbers replaces the numbers in decoded JSON by Go's numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = numbers(member)
		}
	case []any:
		for i, element := range v {
			v[i] = numbers(element)
		}
	case json.Number:
		if n, ok := new(big.Int).SetString(v.String(), 10); ok && !strings.HasPrefix(v.String(), "-0") {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
