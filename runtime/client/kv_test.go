package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

var drawers = actor.NewType[struct{}]("drawer")

// drawer returns the key-value store of an actor behind a gateway, and the wire for the requests.
func drawer(t *testing.T) (kv.Store, *wire) {
	t.Helper()
	behavior := actor.Define(drawers, actor.Spec[struct{}]{OpenKV: true}).Behavior()
	c, w := connect(t, nodetest.Open(t, behavior), client.Options{Backoff: time.Microsecond}, behavior)
	return drawers.Ref(c, "a/b").KV(), w
}

// A client keeps the promises of actor/kv.
func TestAKeyValueStoreIsUsedOverAClient(t *testing.T) {
	store, _ := drawer(t)
	ctx := t.Context()
	_, found, err := store.Get(ctx, kv.Key{"a"})
	errorIf(t, found || err != nil, "%v, %v", found, err)
	encoded := func(e host.Encoding, data ...byte) kv.Value { return kv.Value{Encoding: e, Data: data} }
	values := []kv.Value{
		kv.JSON([]byte(`{"n":12345678901234567890.10,"t":"<é>"}`)), kv.JSON([]byte("null")), kv.Text(""), kv.Bytes(nil), kv.Bytes([]byte{0, 0xFF}),
		encoded(host.EncodedU64, bytes.Repeat([]byte{0xFF}, 8)...), encoded(host.EncodedInteger, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
		encoded(host.EncodedV8, 0xFF, 0x0F, 'R', 1), encoded(host.EncodedCBOR, 0x80), encoded(host.EncodedTyped, 0x80),
	}
	var keys []kv.Key
	var puts []kv.Mutation
	for i, v := range values {
		keys = append(keys, kv.Key{"values", i, []byte{0xFF}, 1.5, true})
		puts = append(puts, kv.Put(keys[i], v).For(time.Hour))
	}
	commit := func(c kv.Commit) kv.Result {
		t.Helper()
		r, err := store.Commit(ctx, c)
		must(t, err)
		return r
	}
	r := commit(kv.Commit{Checks: []kv.Check{kv.Absent(keys[0])}, Mutations: puts})
	errorIf(t, r.Failed != nil || r.Version == 0, "%+v", r)
	many, err := store.GetMany(ctx, keys...)
	must(t, err)
	for i, e := range many {
		errorIf(t, e == nil || e.Value.Encoding != values[i].Encoding || !bytes.Equal(e.Value.Data, values[i].Data) || e.Expires.IsZero() ||
			e.Version != r.Version, "%+v, want %+v", e, values[i])
	}
	n := 0
	for e, err := range store.All(ctx, kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"values"}}, Limit: 3}) {
		must(t, err)
		errorIf(t, !bytes.Equal(e.Value.Data, values[n].Data), "%+v", e)
		n++
	}
	count, err := store.Count(ctx, kv.Selection{})
	errorIf(t, err != nil || count != int64(n) || n != len(values) || n != len(many), "%d, %d, %v", count, n, err)
	r = commit(kv.Commit{Checks: []kv.Check{kv.Exists(keys[0]), kv.Absent(keys[1])}})
	errorIf(t, len(r.Failed) != 1 || r.Failed[0] != 1, "%+v", r)
	_, err = store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Delete(keys[0]), kv.Sum(keys[2], kv.JSON([]byte("1")))}})
	e, is := errors.AsType[*host.Error](err)
	errorIf(t, !is || e.Code != host.FailedPrecondition || !strings.HasPrefix(e.Metadata["field"], "mutations[1]"), "%v", err)
	r = commit(kv.Commit{Mutations: []kv.Mutation{kv.DeleteRange(kv.Selection{Prefix: kv.Key{"values"}})}})
	errorIf(t, r.Deleted != int64(n), "%+v", r)

	puts = nil // a commit that is larger than the gateway's usual limit
	for i := range 7 {
		puts = append(puts, kv.Put(kv.Key{i}, kv.Bytes(make([]byte, 1<<20))))
	}
	commit(kv.Commit{Mutations: puts})
	all, err := store.GetMany(ctx, kv.Key{0}, kv.Key{6})
	errorIf(t, err != nil || len(all[1].Value.Data) != 1<<20, "%v", err)
}

// A commit whose answer is lost is repeated and takes effect once. Reads are simply repeated.
func TestALostCommitIsDoneOnce(t *testing.T) {
	store, w := drawer(t)
	w.after = func(attempt int) error {
		if attempt%2 == 1 {
			return errors.New("connection reset")
		}
		return nil
	}
	visits := kv.Key{"visits"}
	r, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Sum(visits, kv.JSON([]byte("1")))}})
	errorIf(t, err != nil || string(r.Results[0].Value.Data) != "1", "%+v, %v", r, err)
	e, found, err := store.Get(t.Context(), visits)
	errorIf(t, err != nil || !found || string(e.Value.Data) != "1", "%+v, %v, %v", e, found, err)
	errorIf(t, w.attempts != 4 || w.headers[0].Get("Idempotency-Key") == "" || w.headers[2].Get("Idempotency-Key") != "",
		"%d attempts: %v", w.attempts, w.headers)
}

// withToken returns a client with a token of the room, its text, and a function to revoke it.
func (s *stage) withToken(operator *client.Client, config kv.TokenConfig) (c *client.Client, text string, revoke func()) {
	s.t.Helper()
	all := rooms.Ref(operator, "a").KV()
	text, made, err := all.CreateToken(s.t.Context(), config)
	must(s.t, err)
	errorIf(s.t, made.Inspect != config.Rights.Inspect, "%+v", made)
	c, err = client.New("http://node.example", client.Options{Token: text, HTTPClient: &http.Client{Transport: s.transport}})
	must(s.t, err)
	return c, text, func() {
		there, err := all.RevokeToken(s.t.Context(), made.ID)
		errorIf(s.t, err != nil || !there, "%v %v", there, err)
	}
}

// A client with a token of the actor does what the token allows, and its watch ends for good with
// the token.
func TestAClientMayHaveATokenOfTheActor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		s.call("none", "")
		commit := func(store kv.Store, key kv.Key, n string) error {
			put := kv.Put(key, kv.JSON([]byte(n)))
			return errOf(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{put}}))
		}
		must(t, commit(rooms.Ref(operator, "a").KV(), kv.Key{"in", "x"}, "1"))
		rights := kv.Rights{Read: true, Write: true, Watch: true}
		c, _, revoke := s.withToken(operator, kv.TokenConfig{Rights: rights, Prefix: kv.Key{"in"}})
		store := rooms.Ref(c, "a").KV()
		e, _, err := store.Get(t.Context(), kv.Key{"in", "x"})
		errorIf(t, err != nil || string(e.Value.Data) != "1", "%+v %v", e, err)
		wantCode(t, commit(store, kv.Key{"out"}, "1"), host.PermissionDenied)
		f := followStore(t, store, kv.WatchConfig{Prefixes: []kv.Key{{"in"}}})
		synctest.Wait()
		must(t, commit(store, kv.Key{"in", "x"}, "2"))
		synctest.Wait()
		revoke()
		time.Sleep(time.Minute)
		news := f.news()
		errorIf(t, news != "[in x]=2", "%q", news)
		wantCode(t, f.err, host.Unauthenticated)
	})
}

// A token with the right inspect can read its actor and not change it. Streams opened with it end
// with the token.
func TestATokenMayInspectItsActor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		ctx := t.Context()
		s.call("none", "")
		rights := kv.Rights{Read: true, Inspect: true}
		c, text, revoke := s.withToken(operator, kv.TokenConfig{Rights: rights, Label: "inspector"})
		st, err := c.Lookup(ctx, room)
		errorIf(t, err != nil || st.Type != "room", "the status: %+v %v", st, err)
		page, err := c.Inspect(ctx, room, host.InspectQuery{})
		errorIf(t, err != nil || len(page.Keys) == 0, "the keys: %d %v", len(page.Keys), err)
		wantCode(t, errOf(c.Lookup(ctx, host.Address{Type: "room", Key: []string{"b"}})), host.Unauthenticated)
		wantCode(t, c.Destroy(ctx, room), host.PermissionDenied)
		wantCode(t, errOf(c.List(ctx, host.ListQuery{})), host.Unauthenticated)
		for _, route := range []string{"PUT ", "GET connect", "GET queues/mail", "GET sqlite"} {
			method, path, _ := strings.Cut(route, " ")
			r, err := http.NewRequestWithContext(ctx, method, "http://node.example/actors/room/a/-/"+path, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+text)
			w, err := s.transport.RoundTrip(r)
			must(t, err)
			w.Body.Close()
			errorIf(t, w.StatusCode != http.StatusForbidden, "%s: status %d", route, w.StatusCode)
		}
		events := s.open(c, host.Subscription{})
		ended := make(chan error, 1)
		go func() { ended <- errOf(events.Next(ctx)) }()
		synctest.Wait()
		revoke()
		wantCode(t, <-ended, host.Unauthenticated)
	})
}

// databases holds one database that is exported and imported. fail, if set, may fail an attempt.
type databases struct {
	file     []byte
	reason   string
	attempts int
	fail     func(attempt int) error
	// cut is the number of bytes after which an export ends with an error.
	cut int
}

func (d *databases) begin() error {
	d.attempts++
	if d.fail == nil {
		return nil
	}
	return d.fail(d.attempts)
}

func (d *databases) ExportSQL(_ context.Context, a host.Address, w io.Writer) error {
	if err := d.begin(); err != nil {
		return err
	}
	if d.cut > 0 {
		w.Write(d.file[:d.cut])
		return errors.New("a page is missing")
	}
	_, err := w.Write(d.file)
	return err
}

func (d *databases) QueryMany(_ context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error) {
	return host.QueryManyOutput{Actors: []host.ActorRows{{Key: in.Prefix,
		Rows: [][]any{{int64(1) << 60, in.SQL, in.Where, in.Args}}}}, Read: in.Limit, Cursor: in.Cursor}, nil
}

func (d *databases) ImportSQL(_ context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	b, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err := errors.Join(err, d.begin()); err != nil {
		return host.SQLStatusOutput{}, err
	}
	d.file, d.reason = b, fmt.Sprintf("%s %q %s", a.Type, a.Key, reason)
	return host.SQLStatusOutput{Exists: true, Bytes: int64(len(b)), Sequence: 1 << 60}, nil
}

// serveDatabases puts d behind a gateway and a server.
func serveDatabases(t *testing.T, d *databases) *client.Client {
	t.Helper()
	f, err := serve.New(serve.Options{})
	must(t, err)
	return served(t, gateway.New(f, gateway.Options{Node: &hosttest.Recorder{}, Databases: d}).ServeHTTP, client.Options{})
}

func TestQueriesOverManyDatabasesKeepAllDigits(t *testing.T) {
	c := serveDatabases(t, &databases{})
	in := host.QueryManyInput{Type: "room", Prefix: []string{"a"}, Where: []string{"size>1"}, SQL: "SELECT ?1",
		Args: []json.RawMessage{[]byte("1152921504606846977")}, Limit: 7, Cursor: "c"}
	out, err := c.QueryMany(t.Context(), &in)
	must(t, err)
	const want = "{[] [{[a] [] [[1152921504606846976 SELECT ?1 [size>1] [1152921504606846977]]] false <nil>}] 7 c}"
	errorIf(t, fmt.Sprint(out) != want, "%v, want %s", out, want)
	notJSON := host.QueryManyInput{Args: []json.RawMessage{[]byte("{")}}
	wantCode(t, errOf(c.QueryMany(t.Context(), &notJSON)), host.InvalidArgument)
}

func TestADatabaseGoesInAndComesOut(t *testing.T) {
	d := &databases{}
	c := serveDatabases(t, d)
	a := host.Address{Type: "t", Key: []string{"", "é"}}
	want := bytes.Repeat([]byte("page"), 100_000)
	name := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(name, want, 0o600))
	file, err := os.Open(name)
	must(t, err)
	defer file.Close()
	for _, r := range []io.Reader{file, iotest.OneByteReader(bytes.NewReader(want[:1000])), strings.NewReader("")} {
		d.file = nil
		out, err := c.ImportSQL(t.Context(), a, r, "a & b")
		must(t, err)
		errorIf(t, d.reason != `t ["" "é"] a & b` || out.Bytes != int64(len(d.file)) || out.Sequence != 1<<60 ||
			!bytes.HasPrefix(want, d.file),
			"%+v %q", out, d.reason)
	}
	d.file = want
	var got bytes.Buffer
	must(t, c.ExportSQL(t.Context(), a, &got))
	errorIf(t, !bytes.Equal(got.Bytes(), want), "%d bytes", got.Len())
}

func TestAnImportIsRepeatedIfNothingWasDoneAndTheFileCanBeReadAgain(t *testing.T) {
	d := &databases{fail: first(2, host.Errorf(host.Overloaded, "not now").Retry())}
	c := serveDatabases(t, d)
	in := strings.NewReader("xyz")
	in.ReadByte() // bytes before the position are not part of the file
	must(t, errOf(c.ImportSQL(t.Context(), room, in, "r")))
	errorIf(t, string(d.file) != "yz" || d.attempts != 3, "%q, %d attempts", d.file, d.attempts)
	d.attempts = 0
	wantCode(t, errOf(c.ImportSQL(t.Context(), room, io.MultiReader(strings.NewReader("xyz")), "r")), host.Overloaded)
	errorIf(t, d.attempts != 1, "%d attempts", d.attempts)

	// An unreadable file is not the node's fault, and a refused file is not sent.
	d.fail = nil
	err := errOf(c.ImportSQL(t.Context(), room, iotest.ErrReader(errors.New("disk on fire")), "r"))
	wantCode(t, err, host.InvalidArgument)
	errorIf(t, !strings.Contains(fmt.Sprint(err), "disk on fire"), "%v", err)
	in = strings.NewReader("xyz")
	err = errOf(c.ImportSQL(t.Context(), room, in, ""))
	wantCode(t, err, host.InvalidArgument)
	errorIf(t, !strings.Contains(fmt.Sprint(err), "reason") || in.Len() != 3, "%v", err)
}

func TestAnExportThatEndsEarlyIsAnError(t *testing.T) {
	d := &databases{file: make([]byte, 1<<20), cut: 1 << 19}
	c := serveDatabases(t, d)
	var got bytes.Buffer
	wantCode(t, c.ExportSQL(t.Context(), room, &got), host.Unavailable)
	errorIf(t, d.attempts != 1, "%d attempts", d.attempts)
	*d = databases{file: []byte("x"), fail: first(1, host.Errorf(host.Unavailable, "starting").Retry())}
	got.Reset()
	must(t, c.ExportSQL(t.Context(), room, &got))
	errorIf(t, got.String() != "x" || d.attempts != 2, "%q, %d attempts", &got, d.attempts)
	d.fail = first(9, host.Errorf(host.NotFound, "no database"))
	wantCode(t, c.ExportSQL(t.Context(), room, &got), host.NotFound)
	d.fail = nil
	pipe, w := io.Pipe()
	pipe.Close()
	wantCode(t, c.ExportSQL(t.Context(), room, w), host.Canceled)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// net/http may continue to read the body of an answered request.
func TestOnlyTheLastAttemptReadsTheFile(t *testing.T) {
	answer := func(status int, body string) *http.Response {
		return &http.Response{StatusCode: status, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}
	}
	var before io.Reader
	var got []byte
	c, err := client.New("http://node.example", client.Options{
		Backoff: time.Microsecond, HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			some := make([]byte, 3)
			if before == nil {
				before = r.Body
				io.ReadFull(before, some)
				return answer(503, `{"code":"unavailable","message":"starting","retryable":true}`), nil
			}
			n, err := before.Read(some)
			errorIf(t, n != 0 || err != io.ErrClosedPipe, "the first attempt read %d bytes more: %v", n, err)
			before = r.Body
			got, _ = io.ReadAll(r.Body)
			return answer(200, `{}`), nil
		})},
	})
	must(t, err)
	if _, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, strings.NewReader("0123456789"), "r"); err != nil ||
		string(got) != "0123456789" {
		t.Errorf("%v, %q", err, got)
	}
	if n, err := before.Read(make([]byte, 1)); n != 0 || err != io.ErrClosedPipe {
		t.Errorf("after the import %d bytes were read: %v", n, err)
	}
}
