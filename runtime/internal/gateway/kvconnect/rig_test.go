package kvconnect_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/gateway/gatewaytest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// A database is an open database of a Deno KV client.
type database struct {
	*gatewaytest.Store
	base   *url.URL // of the data path
	header http.Header
}

// open opens the store of a room.
func open(t *testing.T, o serve.Options) *database {
	t.Helper()
	d := &database{Store: gatewaytest.Open(t, "kv", o)}
	if o.Token == "" {
		d.open("/actors/room/a/-/kv")
	}
	return d
}

// exchange sends a request.
func (d *database) exchange(verb, path, body string, header http.Header) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(verb, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header = header
	d.Gateway.ServeHTTP(w, r)
	return w
}

// ask posts a request. Headers are "Name: value".
func (d *database) ask(path, body string, headers ...string) *httptest.ResponseRecorder {
	header := http.Header{}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		header.Add(name, value)
	}
	return d.exchange(http.MethodPost, path, body, header)
}

// open does the metadata exchange.
func (d *database) open(path string, headers ...string) {
	d.T.Helper()
	w := d.ask(path, `{"supportedVersions":[1,2,3]}`, headers...)
	var m struct {
		Version           int
		DatabaseID, Token string
		Endpoints         []struct{ URL, Consistency string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); w.Code != http.StatusOK || err != nil {
		d.T.Fatal(w.Code, w.Body, err)
	}
	base, err := url.Parse("http://node" + path)
	if err == nil {
		d.base, err = base.Parse(m.Endpoints[0].URL)
	}
	must(d.T, err)
	d.header = http.Header{"Authorization": {"Bearer " + m.Token}, "X-Denokv-Version": {fmt.Sprint(m.Version)},
		"X-Denokv-Database-Id": {m.DatabaseID}}
}

// send posts a message to an operation.
func (d *database) send(operation string, body []byte) *httptest.ResponseRecorder {
	return d.exchange(http.MethodPost, d.base.String()+"/"+operation, string(body), d.header)
}

// message encodes a message from pairs of field number and value. A nil is omitted.
func message(fields ...any) (b []byte) {
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case nil:
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case int64:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		}
	}
	return b
}

func key(parts ...any) []byte {
	b, err := tuple.Tuple(parts).Pack()
	if err != nil {
		panic(err)
	}
	return b
}

const (
	isV8, isU64, isBytes                    = 1, 2, 3
	set, remove, sum, most, least, setStamp = 1, 2, 3, 4, 5, 9
)

func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func bigint(n int64) []byte { return v8.FromInteger(big.NewInt(n)) }

// mutate encodes a mutation of an AtomicWrite. more has further fields.
func mutate(kind int, key []byte, encoding int, value []byte, more ...any) []byte {
	return message(2, message(append([]any{1, key, 2, message(1, value, 2, encoding), 3, kind}, more...)...))
}

// commit sends an AtomicWrite, and returns its versionstamp, or the failed checks as text.
func (d *database) commit(parts ...[]byte) string {
	d.T.Helper()
	w := d.send("atomic_write", bytes.Join(parts, nil))
	if stamp, ok := strings.CutPrefix(w.Body.String(), "\x08\x01\x12\x0a"); ok && len(stamp) == 10 {
		return stamp
	}
	failed, ok := bytes.CutPrefix(w.Body.Bytes(), []byte("\x08\x02\x22"))
	fatalIf(d.T, !ok, "%d %q is no answer", w.Code, w.Body)
	return fmt.Sprint("failed ", failed[1:])
}

// refuse checks that an AtomicWrite is refused with a text.
func (d *database) refuse(status int, text string, parts ...[]byte) {
	d.T.Helper()
	d.refused(d.send("atomic_write", bytes.Join(parts, nil)), status, text)
}

// refused checks that a request was refused with a text.
func (d *database) refused(w *httptest.ResponseRecorder, status int, text string) {
	d.T.Helper()
	plain := w.Header().Get("Content-Type") == "text/plain; charset=utf-8"
	errorIf(d.T, w.Code != status || !strings.Contains(w.Body.String(), text) || plain == (status == http.StatusUnauthorized),
		"%d %s %q, not %d %q", w.Code, w.Header(), w.Body, status, text)
}

// bounds encodes a range of a SnapshotRead.
func bounds(start, end []byte, limit int, reverse int) []byte {
	return message(1, message(1, start, 2, end, 3, limit, 4, reverse))
}

// read reads ranges, and returns for each the keys in hex with the encoding and value.
func (d *database) read(ranges ...[]byte) [][]string {
	d.T.Helper()
	w := d.send("snapshot_read", bytes.Join(ranges, nil))
	fatalIf(d.T, w.Code != http.StatusOK, "%v %v", w.Code, w.Body)
	body := w.Body.Bytes()
	body, ok := bytes.CutSuffix(body, []byte("\x20\x01\x40\x01"))
	fatalIf(d.T, !ok, "%x is not said to be consistent", body)
	pages := [][]string{}
	for _, page := range repeated(body) {
		entries := []string{}
		for _, e := range repeated(page) {
			fields := repeated(e)
			fatalIf(d.T, len(fields) != 4 || len(fields[3]) != 10, "%x is no entry", e)
			entries = append(entries, fmt.Sprintf("%x %x %x", fields[0], fields[2], fields[1]))
		}
		pages = append(pages, entries)
	}
	return pages
}

// repeated returns the fields of a message.
func repeated(b []byte) (all [][]byte) {
	for len(b) > 0 {
		_, kind, n := protowire.ConsumeTag(b)
		v, m := protowire.ConsumeBytes(b[n:])
		if kind != protowire.BytesType {
			var number uint64
			number, m = protowire.ConsumeVarint(b[n:])
			v = []byte{byte(number)}
		}
		all, b = append(all, v), b[n+m:]
	}
	return all
}

// get returns the encoding and value of a key, "" if there is none.
func (d *database) get(key []byte) string {
	d.T.Helper()
	found := d.read(bounds(key, append(key[:len(key):len(key)], 0), 1, 0))[0]
	if len(found) == 0 {
		return ""
	}
	_, rest, _ := strings.Cut(found[0], " ")
	return rest
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
