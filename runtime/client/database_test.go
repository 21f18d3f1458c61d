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
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// databases holds one database that is exported and imported. fail, if set, may fail an attempt.
type databases struct {
	file     []byte
	reason   string
	attempts int
	fail     func(attempt int) error
	// cut ends an export after so many bytes, with an error.
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
	return host.QueryManyOutput{Actors: []host.ActorRows{{Key: in.Prefix, Rows: [][]any{{int64(1) << 60, in.SQL, in.Where, in.Args}}}}, Read: in.Limit, Cursor: in.Cursor}, nil
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
		errorIf(t, d.reason != `t ["" "é"] a & b` || out.Bytes != int64(len(d.file)) || out.Sequence != 1<<60 || !bytes.HasPrefix(want, d.file),
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
	in.ReadByte() // what stands before the position is not the file
	must(t, errOf(c.ImportSQL(t.Context(), room, in, "r")))
	errorIf(t, string(d.file) != "yz" || d.attempts != 3, "%q, %d attempts", d.file, d.attempts)
	d.attempts = 0
	wantCode(t, errOf(c.ImportSQL(t.Context(), room, io.MultiReader(strings.NewReader("xyz")), "r")), host.Overloaded)
	errorIf(t, d.attempts != 1, "%d attempts", d.attempts)

	// A file that cannot be read is not the fault of the node, and what is refused is not sent.
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

// net/http may go on reading the body of a request that is answered already.
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
			if n, err := before.Read(some); n != 0 || err != io.ErrClosedPipe {
				t.Errorf("the first attempt read %d bytes more: %v", n, err)
			}
			before = r.Body
			got, _ = io.ReadAll(r.Body)
			return answer(200, `{}`), nil
		})},
	})
	must(t, err)
	if _, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, strings.NewReader("0123456789"), "r"); err != nil || string(got) != "0123456789" {
		t.Errorf("%v, %q", err, got)
	}
	if n, err := before.Read(make([]byte, 1)); n != 0 || err != io.ErrClosedPipe {
		t.Errorf("after the import %d bytes were read: %v", n, err)
	}
}
