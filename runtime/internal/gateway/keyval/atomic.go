package keyval

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

type check struct {
	Key          host.Raw `json:"key"`
	Versionstamp host.Raw `json:"versionstamp"`
}

type mutation struct {
	Type      string       `json:"type"`
	Key       host.Raw     `json:"key"`
	Value     host.Raw     `json:"value"`
	ExpiresIn *json.Number `json:"expiresIn"`
}

// atomic answers POST api/atomic.
func atomic(r *kvrest.Request) (any, error) {
	var in struct {
		Checks    []check    `json:"checks" max:"10000"`
		Mutations []mutation `json:"mutations" max:"10000"`
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	if in.Mutations == nil {
		return nil, kvrest.Wrong("mutations", "mutations is missing")
	}
	if err := checkCount(len(in.Checks), maxChecks, "checks"); err != nil {
		return nil, err
	}
	if err := checkCount(len(in.Mutations), maxMutations, "mutations"); err != nil {
		return nil, err
	}
	do := kv.CommitInput{Checks: make([]kv.Check, len(in.Checks)), Mutations: make([]kv.Mutation, len(in.Mutations))}
	for i := range in.Checks {
		var err error
		if do.Checks[i], err = in.Checks[i].translate("checks[" + strconv.Itoa(i) + "]"); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	for i := range in.Mutations {
		var err error
		if do.Mutations[i], err = in.Mutations[i].translate("mutations["+strconv.Itoa(i)+"]", now); err != nil {
			return nil, err
		}
	}
	var out kv.CommitOutput
	err := r.Do(host.KVCommit, &do, &out)
	return answerOf(&out), err
}

func (c *check) translate(place string) (to kv.Check, err error) {
	if to.Key, err = jsonKey(c.Key, place+".key"); err != nil {
		return to, err
	}
	at, version := place+".versionstamp", uint64(0)
	var stamp *string
	if len(c.Versionstamp) == 0 || json.Unmarshal(c.Versionstamp, &stamp) != nil {
		return to, kvrest.Wrong(at, "%s is no string; null demands that there is no entry", at)
	}
	if stamp != nil {
		version = versionOf(*stamp)
	}
	to.Version = &version
	return to, nil
}

func (m *mutation) translate(place string, now time.Time) (to kv.Mutation, err error) {
	if to.Key, err = jsonKey(m.Key, place+".key"); err != nil {
		return to, err
	}
	at := place + ".value"
	switch m.Type {
	case "set":
		to.Op = "put"
		to.Value, to.Encoding, err = document(m.Value, at, now)
	case "delete":
		to.Op = "delete"
		if m.ExpiresIn != nil {
			return to, kvrest.Wrong(place+".expiresIn", "%s.expiresIn: a delete takes none", place)
		}
		return to, nil
	case "sum", "max", "min":
		to.Op = m.Type
		to.Value, to.Encoding, err = operand(m.Value, at)
	case "append", "prepend":
		to.Op = m.Type
		if text := bytes.TrimLeft(m.Value, " \t\r\n"); len(text) == 0 || text[0] != '[' {
			return to, kvrest.Wrong(at, "%s: the value of %s must be an array", at, m.Type)
		}
		to.Value, to.Encoding, err = document(m.Value, at, now)
	default:
		return to, kvrest.Wrong(place+".type",
			"%s.type is %.40q; it is set, delete, sum, max, min, append or prepend", place, m.Type)
	}
	if err == nil {
		to.TTLMS, err = lifetime(m.ExpiresIn, place+".expiresIn")
	}
	return to, err
}

// decimal matches a JSON number in a string.
var decimal = regexp.MustCompile(`^"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"$`)

// operand reads the operand of sum, max and min: a number, a bigint, or a number in a string.
func operand(raw host.Raw, place string) (host.Raw, string, error) {
	if len(raw) == 0 {
		return nil, "", kvrest.Wrong(place, "%s is missing", place)
	}
	if n := bigint(raw); n != "" {
		return host.Raw(n), host.EncodedInteger.String(), nil
	}
	if m := decimal.FindSubmatch(raw); m != nil {
		return host.Raw(m[1]), "", nil
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return nil, "", kvrest.Wrong(place,
			"%s is %s, and not a number, a bigint or a text of a number", place, clip(raw))
	}
	return raw, "", nil
}
