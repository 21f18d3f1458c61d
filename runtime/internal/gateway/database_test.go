package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestADatabaseIsExportedAsAFile(t *testing.T) {
	t.Parallel()
	var asked []serve.AuthRequest
	g := newGateway(t, setup{Databases: &fakeDatabases{
		export: func(_ context.Context, a host.Address, w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s %q", a.Type, a.Key)
			return err
		},
	}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		asked = append(asked, r)
		return nil
	}})
	w := ask(g, "GET", "/actors/room/a%2Fb/%C3%A9/-/sqlite", "")
	if w.Code != 200 || w.Body.String() != `room ["a/b" "é"]` {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/vnd.sqlite3", "Cache-Control": "no-store",
		"Content-Disposition": "attachment; filename=room-a_b-_.sqlite",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(asked) != 1 || asked[0].Operation != serve.Operate || asked[0].Method != ExportSQL || !slices.Equal(asked[0].Key, []string{"a/b", "é"}) {
		t.Errorf("asked %+v", asked)
	}
	if w := ask(g, "HEAD", "/actors/room/-/sqlite", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, PUT, OPTIONS" {
		t.Error("HEAD: ", w.Code, w.Header())
	}
	if w := ask(g, "GET", "/actors/room/-/sqlite?reason=x", ""); w.Code != 400 {
		t.Error("unknown parameter: ", w.Code)
	}
}

func TestAFailureBeforeTheFileBeginsIsAnErrorLikeAnyOther(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Databases: &fakeDatabases{
		export: func(_ context.Context, a host.Address, w io.Writer) error {
			w.Write(make([]byte, 4096)) // less than is put together before it is written
			return host.Errorf(host.NotFound, "there is no database")
		},
	}})
	w := ask(g, "GET", "/actors/room/a/-/sqlite", "")
	if e := errorOf(t, w); w.Code != 404 || e.Code != host.NotFound || w.Header().Get("Content-Disposition") != "" {
		t.Error(w.Code, e, w.Header())
	}
}

func TestAnExportThatFailsHalfWayIsCutOff(t *testing.T) {
	t.Parallel()
	const sent = 1 << 20
	g := newGateway(t, setup{Databases: &fakeDatabases{
		export: func(_ context.Context, a host.Address, w io.Writer) error {
			for range sent / 4096 {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return err
				}
			}
			return errors.New("a page is missing")
		},
	}})
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(g)
		server.EnableHTTP2 = h2
		server.StartTLS()
		res, err := server.Client().Get(server.URL + "/actors/room/a/-/sqlite")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		server.Close()
		if res.ProtoMajor == 2 != h2 || res.StatusCode != 200 || err == nil || n > sent {
			t.Errorf("%s: %d, %d bytes, %v", res.Proto, res.StatusCode, n, err)
		}
	}
}

func TestAClientThatDoesNotReadItsFileIsCutOff(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	g := newGateway(t, setup{Limits: serve.Limits{StreamWriteTimeout: 50 * time.Millisecond}, Databases: &fakeDatabases{
		export: func(_ context.Context, a host.Address, w io.Writer) error {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					ended <- err
					return err
				}
			}
		},
	}})
	server := httptest.NewServer(g)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /actors/room/a/-/sqlite HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}

// importing answers imports with what it read.
func importing(got *string) *fakeDatabases {
	return &fakeDatabases{imp: func(_ context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
		b, err := io.ReadAll(file)
		if err != nil {
			return host.SQLStatusOutput{}, host.Errorf(host.Internal, "the import's own words")
		}
		*got = fmt.Sprintf("%s %q %q: %s", a.Type, a.Key, reason, b)
		return host.SQLStatusOutput{Exists: true, Bytes: int64(len(b)), Sequence: 1}, nil
	}}
}

func TestAFileIsImported(t *testing.T) {
	t.Parallel()
	var got string
	g := newGateway(t, setup{Databases: importing(&got), Token: "secret"})
	server := httptest.NewServer(g)
	defer server.Close()
	for _, length := range []int64{4, -1} {
		got = ""
		r, err := http.NewRequest("PUT", server.URL+"/actors/room/a/-/sqlite?reason="+url.QueryEscape("ticket 7: é"), io.NopCloser(strings.NewReader("file")))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // what curl says unless it is told otherwise
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var out host.SQLStatusOutput
		err = json.NewDecoder(res.Body).Decode(&out)
		res.Body.Close()
		if res.StatusCode != 200 || err != nil || out.Bytes != 4 || got != `room ["a"] "ticket 7: é": file` {
			t.Errorf("length %d: %d %v %+v %q", length, res.StatusCode, err, out, got)
		}
	}
}

func TestAnImportThatIsNotAllowedOrHasNoReasonIsNotRead(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Databases: &fakeDatabases{}, Limits: serve.Limits{ImportBytes: 100},
		Authorize: func(_ context.Context, r serve.AuthRequest) error {
			if r.Method != ImportSQL || r.Operation != serve.Operate {
				t.Errorf("%+v", r)
			}
			if r.Key[0] == "locked" {
				return errors.New("no")
			}
			return nil
		}})
	for path, code := range map[string]host.Code{
		"a/-/sqlite":            host.InvalidArgument,
		"a/-/sqlite?reason=":    host.InvalidArgument,
		"a/-/sqlite?reason=%ff": host.InvalidArgument,
		"a/-/sqlite?raeson=x":   host.InvalidArgument,
		"a/-/sqlite?reason=" + strings.Repeat("x", 1025):   host.TooLarge,
		"locked/-/sqlite?reason=x":                         host.PermissionDenied,
		"a/-/sqlite?reason=" + strings.Repeat("%C3%A9", 8): host.TooLarge, // by its Content-Length
	} {
		w := ask(g, "PUT", "/actors/room/"+path, strings.Repeat("x", 101))
		if e := errorOf(t, w); e.Code != code {
			t.Errorf("%s: %v", path, e)
		}
	}
}

func TestABodyThatIsTooLongOrEndsEarlyIsTheClientsFault(t *testing.T) {
	t.Parallel()
	var got string
	for name, c := range map[string]struct {
		body    string
		timeout time.Duration // short only where it is to pass
		code    host.Code
	}{
		"too long": {"c8\r\n" + strings.Repeat("x", 200) + "\r\n0\r\n\r\n", time.Hour, host.TooLarge},
		"stuck":    {"c8\r\n" + strings.Repeat("x", 50), 50 * time.Millisecond, host.DeadlineExceeded},
		"broken":   {"what\r\n", time.Hour, host.InvalidArgument},
	} {
		g := newGateway(t, setup{Databases: importing(&got), Limits: serve.Limits{ImportBytes: 100, BodyTimeout: c.timeout}})
		server := httptest.NewServer(g)
		defer server.Close()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /actors/room/a/-/sqlite?reason=x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%s", c.body)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		var e host.Error
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Code != c.code {
			t.Errorf("%s: %v %+v", name, err, e)
		}
		conn.Close()
	}
}

func TestAClientThatWaitsForPermissionSendsNothingBeforeIt(t *testing.T) {
	t.Parallel()
	var got string
	g := newGateway(t, setup{Databases: importing(&got), Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Key[0] == "locked" {
			return host.Errorf(host.PermissionDenied, "not allowed")
		}
		return nil
	}})
	server := httptest.NewServer(g)
	defer server.Close()
	for key, want := range map[string]string{"locked": "HTTP/1.1 403", "open": "HTTP/1.1 100"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /actors/room/%s/-/sqlite?reason=x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", key)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("%s: %q %v", key, line, err)
		}
		conn.Close()
	}
}

func TestANodeWithoutDatabasesHasNothingAtTheirPaths(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{})
	for _, method := range []string{"GET", "PUT", "OPTIONS"} {
		if w := ask(g, method, "/actors/room/a/-/sqlite", ""); w.Code != 404 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if doc := ask(g, "GET", "/openapi.json", "").Body.Bytes(); bytes.Contains(doc, []byte("/-/sqlite")) {
		t.Error("the document has the paths")
	}
}

func TestAnImportThatTheNodeFindsTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Databases: &fakeDatabases{
		imp: func(_ context.Context, _ host.Address, file io.Reader, _ string) (host.SQLStatusOutput, error) {
			return host.SQLStatusOutput{}, host.Errorf(host.TooLarge, "%d bytes", file.(interface{ Len() int }).Len())
		}}})
	server := httptest.NewServer(g)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /actors/room/a/-/sqlite?reason=x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 70000000\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	var e host.Error
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil || res.StatusCode != 413 || e.Message != "70000000 bytes" {
		t.Errorf("%d %+v %v", res.StatusCode, e, err)
	}
}
