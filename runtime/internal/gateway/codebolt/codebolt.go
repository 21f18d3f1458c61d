package codebolt

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The limits of names.
const (
	maxKey  = 1_024 // bytes
	maxName = 255   // bytes of the name of an instance or namespace
)

// part is the first part of all keys.
const part = "cb"

// tries is how often an operation is tried when other clients interfere.
const tries = 8

// New returns the interface.
func New(call func(context.Context, *host.Request) (host.Reply, error),
	operation func(typ, method string) serve.Operation) *kvrest.Interface {
	return &kvrest.Interface{Call: call, Operation: operation, Form: serve.Brief,
		Status: kvrest.Status, Routes: []kvrest.Route{
			{Verb: http.MethodPost, Path: "instances", Method: host.KVCommit, Answer: createInstance,
				Status: http.StatusCreated},
			{Verb: http.MethodGet, Path: "instances", Method: host.KVList, Answer: listInstances},
			{Verb: http.MethodGet, Path: "instances/*", Method: host.KVGet, Answer: getInstance},
			{Verb: http.MethodPut, Path: "instances/*", Method: host.KVCommit, Answer: updateInstance},
			{Verb: http.MethodDelete, Path: "instances/*", Method: host.KVCommit, Answer: deleteInstance},
			{Verb: http.MethodPost, Path: "kv", Method: host.KVCommit, Answer: setRecord},
			{Verb: http.MethodGet, Path: "kv/*/*/*", Method: host.KVGet, Answer: getRecord},
			{Verb: http.MethodDelete, Path: "kv/*/*/*", Method: host.KVCommit, Answer: deleteRecord},
			{Verb: http.MethodDelete, Path: "namespace/*/*", Method: host.KVCommit, Answer: deleteNamespace},
			{Verb: http.MethodPost, Path: "query", Method: host.KVList, Answer: runQuery},
		}}
}

// A text is a string of valid Unicode. An invalid string would become the key of another record.
type text string

// UnmarshalJSON reads a string.
func (s *text) UnmarshalJSON(b []byte) error {
	var k kv.Key
	if err := json.Unmarshal(append(append([]byte{'['}, b...), ']'), &k); err != nil {
		return err
	}
	got, is := k[0].(string)
	if !is {
		return host.Errorf(host.InvalidArgument, "a string is expected")
	}
	*s = text(got)
	return nil
}

// check checks a name of 1 to most bytes.
func (s text) check(member string, most int) error {
	switch {
	case s == "":
		return kvrest.Wrong(member, "%s is missing or empty", member)
	case len(s) > most:
		return host.OverLimit("bytes of "+member, int64(most), int64(len(s))).With("field", member)
	}
	return nil
}

// check returns the first error.
func check(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// exists returns the check that an entry exists.
func exists(key kv.Key) kv.Check {
	yes := true
	return kv.Check{Key: key, Exists: &yes}
}

// commit commits, and returns whether the checks held.
func commit(r *kvrest.Request, do func(method string, in, out any) error,
	in *kv.CommitInput) (out kv.CommitOutput, err error) {
	err = do(host.KVCommit, in, &out)
	return out, kvrest.Outside(err, "mutations")
}

// missing reports whether there is no actor.
func missing(err error) bool { return host.CodeOf(err) == host.NotFound }
