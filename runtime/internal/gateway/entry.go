package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// entryPath is the path of single entries of an actor's key-value store. Their keys are written as
// paths.
const entryPath = "kv-entry"

// newEntries returns the interface at entryPath. The key is a parameter, not a part of the URL's
// path: clients resolve "..", which could turn a DELETE of an entry into a DELETE of its actor.
func newEntries(call func(context.Context, *host.Request) (host.Reply, error),
	operation func(typ, method string) serve.Operation) *kvrest.Interface {
	return &kvrest.Interface{Call: call, Operation: operation, Status: serve.Status, Routes: []kvrest.Route{
		{Verb: http.MethodGet, Path: entryPath, Method: host.KVGet, Answer: getEntry},
		{Verb: http.MethodPut, Path: entryPath, Method: host.KVCommit, Answer: putEntry},
		{Verb: http.MethodDelete, Path: entryPath, Method: host.KVCommit, Answer: deleteEntry},
	}}
}

// getEntry answers GET .../-/kv-entry.
func getEntry(r *kvrest.Request) (any, error) {
	p, key, err := entryParams(r, "at", "time")
	if err != nil {
		return nil, err
	}
	in := kv.GetInput{Key: key, Moment: kv.Moment{Branch: p["branch"]}}
	if text, given := p["at"]; given {
		if in.At, err = strconv.ParseUint(text, 10, 64); err != nil || in.At == 0 {
			return nil, kvrest.Wrong("at", "the parameter at is %.40q, not a version", text)
		}
	}
	if text, given := p["time"]; given {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, kvrest.Wrong("time", "the parameter time is %.40q, not a time as 2027-01-31T12:00:00Z", text)
		}
		in.Time = &t
	}
	var out kv.GetOutput
	if err := r.Do(host.KVGet, &in, &out); err != nil {
		return nil, err
	}
	if out.Entry == nil {
		return nil, host.Errorf(host.NotFound, "there is no entry with the key %.100s", p["path"])
	}
	return out.Entry, nil
}

// putEntry answers PUT .../-/kv-entry. The body is the value.
func putEntry(r *kvrest.Request) (any, error) {
	p, key, err := entryParams(r, "version", "ttl_ms")
	if err != nil {
		return nil, err
	}
	m := kv.Mutation{Op: "put", Key: key, Literal: true}
	if text, given := p["ttl_ms"]; given {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, kvrest.Wrong("ttl_ms", "the parameter ttl_ms is %.40q, not a number of milliseconds", text)
		}
		m.TTLMS = &ms
	}
	value, err := r.Bytes()
	switch {
	case err != nil:
		return nil, err
	case len(value) == 0:
		return nil, kvrest.Wrong("body", "the body is empty: it is the value, as JSON")
	}
	switch fault := serve.DecodeJSON(value, &m.Value); {
	case fault == serve.ErrNotJSON:
		return nil, kvrest.Wrong("body", "the body is not JSON: it is the value")
	case fault != nil:
		return nil, fault
	}
	return commitEntry(r, r.Do, p, m)
}

// deleteEntry answers DELETE .../-/kv-entry. It does not create the actor.
func deleteEntry(r *kvrest.Request) (any, error) {
	p, key, err := entryParams(r, "version")
	if err != nil {
		return nil, err
	}
	return commitEntry(r, r.DoExisting, p, kv.Mutation{Op: "delete", Key: key})
}

// entryParams reads the parameters of a request, and the key.
func entryParams(r *kvrest.Request, more ...string) (p map[string]string, key kv.Key, err error) {
	if p, err = r.Params(append([]string{"path", "branch"}, more...)...); err != nil {
		return nil, nil, err
	}
	for _, name := range []string{"If-Match", "If-None-Match", "Idempotency-Key"} {
		if len(r.R.Header[name]) > 0 {
			return nil, nil,
				kvrest.Wrong(name,
					"the header %s does not apply to an entry: use the parameter version, or kv.commit", name)
		}
	}
	if p["path"] == "" {
		return nil, nil, kvrest.Wrong("path", "the parameter path is missing: it is the key, such as users/i~7")
	}
	if key, err = kv.ParsePath(p["path"]); err != nil {
		return nil, nil, err.(*host.Error).With("field", "path")
	}
	return p, key, nil
}

// commitEntry does one mutation, if the entry has the version of the parameter.
func commitEntry(r *kvrest.Request, do func(method string, in, out any) error, p map[string]string,
	m kv.Mutation) (any, error) {
	var out kv.CommitOutput
	in := kv.CommitInput{Branch: p["branch"], Mutations: []kv.Mutation{m}}
	if text, given := p["version"]; given {
		version, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, kvrest.Wrong("version", "the parameter version is %.40q, not a version", text)
		}
		in.Checks = []kv.Check{{Key: m.Key, Version: &version}}
	}
	if err := do(host.KVCommit, &in, &out); err != nil {
		return nil, kvrest.Outside(err, "mutations")
	}
	if !out.OK {
		return nil, host.Errorf(host.FailedPrecondition,
			"the entry %.100s has another version than %s", p["path"], p["version"]).With("field", "version")
	}
	return out, nil
}
