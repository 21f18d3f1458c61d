package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

func (d *databases) ExportSQL(_ context.Context, a host.Address, w io.Writer) error {
	d.attempts++
	if d.fail != nil {
		if err := d.fail(d.attempts); err != nil {
			return err
		}
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

func TestQueriesOverManyDatabasesKeepAllDigits(t *testing.T) {
	c := serveDatabases(t, &databases{})
	out, err := c.QueryMany(t.Context(), &host.QueryManyInput{Type: "room", Prefix: []string{"a"}, Where: []string{"size>1"}, SQL: "SELECT ?1", Args: []json.RawMessage{[]byte("1152921504606846977")}, Limit: 7, Cursor: "c"})
	want := "{[] [{[a] [] [[1152921504606846976 SELECT ?1 [size>1] [1152921504606846977]]] false <nil>}] 7 c}"
	if got := fmt.Sprint(out); err != nil || got != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	if _, err := c.QueryMany(t.Context(), &host.QueryManyInput{Args: []json.RawMessage{[]byte("{")}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("an argument that is not JSON: %v", err)
	}
}

func (d *databases) ImportSQL(_ context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	d.attempts++
	b, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err != nil {
		return host.SQLStatusOutput{}, err
	}
	if d.fail != nil {
		if err := d.fail(d.attempts); err != nil {
			return host.SQLStatusOutput{}, err
		}
	}
	d.file, d.reason = b, fmt.Sprintf("%s %q %s", a.Type, a.Key, reason)
	return host.SQLStatusOutput{Exists: true, Bytes: int64(len(b)), Sequence: 1 << 60}, nil
}

// serveDatabases puts d behind a gateway and a server.
func serveDatabases(t *testing.T, d *databases) *client.Client {
	t.Helper()
	f, err := serve.New(serve.Options{})
	must(t, err)
	s := httptest.NewServer(gateway.New(f, gateway.Options{Node: &hosttest.Recorder{}, Databases: d}))
	c, err := client.New(s.URL, client.Options{Backoff: time.Microsecond, MaxBackoff: time.Millisecond})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
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
		if err != nil || d.reason != `t ["" "é"] a & b` || out.Bytes != int64(len(d.file)) || out.Sequence != 1<<60 || !bytes.HasPrefix(want, d.file) {
			t.Errorf("%+v %v %q", out, err, d.reason)
		}
	}
	d.file = want
	var got bytes.Buffer
	if err := c.ExportSQL(t.Context(), a, &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

func TestAnImportIsRepeatedIfNothingWasDoneAndTheFileCanBeReadAgain(t *testing.T) {
	busy := func(attempt int) error {
		if attempt < 3 {
			return host.Errorf(host.Overloaded, "not now").Retry()
		}
		return nil
	}
	d := &databases{fail: busy}
	c := serveDatabases(t, d)
	in := strings.NewReader("xyz")
	in.ReadByte() // what stands before the position is not the file
	if _, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, in, "r"); err != nil || string(d.file) != "yz" || d.attempts != 3 {
		t.Errorf("%v %q %d", err, d.file, d.attempts)
	}
	d.attempts = 0
	_, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, io.MultiReader(strings.NewReader("xyz")), "r")
	if host.CodeOf(err) != host.Overloaded || d.attempts != 1 {
		t.Errorf("%v, %d attempts", err, d.attempts)
	}
}

func TestAFileThatCannotBeReadIsNotTheNodesFault(t *testing.T) {
	c := serveDatabases(t, &databases{})
	_, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, iotest.ErrReader(errors.New("disk on fire")), "r")
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "disk on fire") {
		t.Error(err)
	}
}

func TestAnImportThatIsRefusedIsNotSent(t *testing.T) {
	c := serveDatabases(t, &databases{})
	read := 0
	file := readerFunc(func(b []byte) (int, error) { read++; return len(b), nil })
	_, err := c.ImportSQL(t.Context(), host.Address{Type: "t"}, file, "")
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "reason") || read != 0 {
		t.Errorf("%v, %d reads", err, read)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestAnExportThatEndsEarlyIsAnError(t *testing.T) {
	d := &databases{file: make([]byte, 1<<20), cut: 1 << 19}
	c := serveDatabases(t, d)
	var got bytes.Buffer
	err := c.ExportSQL(t.Context(), host.Address{Type: "t"}, &got)
	if host.CodeOf(err) != host.Unavailable || d.attempts != 1 {
		t.Errorf("%v, %d attempts, %d bytes", err, d.attempts, got.Len())
	}
	*d = databases{file: []byte("x"), fail: func(attempt int) error {
		if attempt == 1 {
			return host.Errorf(host.Unavailable, "starting").Retry()
		}
		return nil
	}}
	got.Reset()
	if err := c.ExportSQL(t.Context(), host.Address{Type: "t"}, &got); err != nil || got.String() != "x" || d.attempts != 2 {
		t.Errorf("%v, %q, %d attempts", err, &got, d.attempts)
	}
	d.fail = func(int) error { return host.Errorf(host.NotFound, "no database") }
	if err := c.ExportSQL(t.Context(), host.Address{Type: "t"}, &got); host.CodeOf(err) != host.NotFound {
		t.Error(err)
	}
	d.fail = nil
	pipe, w := io.Pipe()
	pipe.Close()
	if err := c.ExportSQL(t.Context(), host.Address{Type: "t"}, w); host.CodeOf(err) != host.Canceled {
		t.Error(err)
	}
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
