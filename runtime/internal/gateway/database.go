package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The methods of GET and PUT .../-/sqlite for Authorize. Both are Operate.
const (
	ExportSQL = "sql.export"
	ImportSQL = "sql.import"
)

const (
	// sqliteType is the media type of a SQLite file.
	sqliteType = "application/vnd.sqlite3"
	// exportBuffer is how much of a file is buffered before it is written. A failure before the
	// first write is answered with an error, as for other requests.
	exportBuffer = 64 << 10
	// importStep is how much of a file must arrive within Limits.BodyTimeout.
	importStep = 256 << 10
	// maxReason bounds the reason of an import.
	maxReason = 1024
)

// exportSQL answers GET .../-/sqlite. Its total time is not bounded, but the time of each write is:
// the client may be slow, but must read.
//
// A failure after the first write cuts the connection, or resets the stream of HTTP/2. There is no
// length and no trailer, so this is how a client detects an incomplete file.
func (x *exchange) exportSQL(t *target) {
	x.Count(t.Type, serve.LabelExport)
	fault := x.Authorize(x.R.Context(), serve.Operate, t.Address, ExportSQL)
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	out := &exportWriter{x: x, rc: http.NewResponseController(x.W), address: t.Address}
	out.rc.SetWriteDeadline(time.Time{}) // the server's is for replies that are ready at once
	buffered := bufio.NewWriterSize(out, exportBuffer)
	err := x.g.opts.Databases.ExportSQL(x.R.Context(), t.Address, buffered)
	if err == nil {
		err = buffered.Flush()
	}
	out.rc.SetWriteDeadline(time.Now().Add(serve.ReplyTimeout)) // for net/http's last write
	switch {
	case err == nil:
		out.begin()
	case errors.Is(out.err, os.ErrDeadlineExceeded):
		x.Fail(host.Errorf(host.DeadlineExceeded, "the file was not read"))
	case out.err != nil:
		x.Fail(host.Errorf(host.Canceled, "the client is gone"))
	default:
		x.Fail(x.Front.AsError(err))
	}
}

// An exportWriter sends a file, after the header.
type exportWriter struct {
	x       *exchange
	rc      *http.ResponseController
	address host.Address
	err     error // why a write failed
}

func (w *exportWriter) Write(b []byte) (int, error) {
	w.begin()
	w.rc.SetWriteDeadline(time.Now().Add(w.x.Front.Limits.StreamWriteTimeout))
	n, err := w.x.W.Write(b)
	if err != nil {
		w.err = err
		return n, err
	}
	// HTTP/2 ends a stream whose deadline passes, even without a write at that time.
	w.rc.SetWriteDeadline(time.Time{})
	return n, nil
}

// begin sends the header.
func (w *exportWriter) begin() {
	if w.x.Began() {
		return
	}
	h := w.x.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", sqliteType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(w.address)}))
	w.x.Begin(http.StatusOK)
}

// fileName returns a file name for an actor's database: its address, cut to a length, with the
// characters replaced that file systems may refuse.
func fileName(a host.Address) string {
	const most = 100
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, strings.Join(append([]string{a.Type}, a.Key...), "-"))
	return name[:min(len(name), most)] + ".sqlite"
}

// importSQL answers PUT .../-/sqlite. It ignores the Content-Type: the first bytes of the body show
// its type.
func (x *exchange) importSQL(t *target) {
	x.Count(t.Type, serve.LabelImport)
	var p parameters
	fault := x.Authorize(x.R.Context(), serve.Operate, t.Address, ImportSQL)
	if fault == nil {
		p, fault = x.params("reason")
	}
	reason, _ := p.one("reason")
	switch {
	case fault != nil:
	case reason == "":
		fault = wrong("reason", "the parameter reason is missing: say why the database is replaced")
	case len(reason) > maxReason:
		fault = host.OverLimit("bytes of the reason", maxReason, int64(len(reason))).With("field", "reason")
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	limit := x.Front.Limits.ImportBytes
	if n := x.R.ContentLength; n > limit {
		x.W.Header().Set("Connection", "close")
		x.Fail(serve.TooLong("body", limit, n))
		return
	}
	rc := http.NewResponseController(x.W)
	rc.SetWriteDeadline(time.Time{}) // the server's deadline is for requests that arrive at once
	in := &importReader{x: x, body: http.MaxBytesReader(x.W, x.R.Body, limit)}
	out, err := x.g.opts.Databases.ImportSQL(x.R.Context(), t.Address, in, reason)
	rc.SetWriteDeadline(time.Now().Add(serve.ReplyTimeout))
	if err == nil {
		x.ReadDeadline(time.Time{})
		x.JSON(http.StatusOK, out)
		return
	}
	if in.err != nil {
		x.Fail(x.BodyFault(in.err, limit))
		return
	}
	// The rest is not read. The deadline stays, or net/http would wait for the rest without one.
	x.W.Header().Set("Connection", "close")
	x.Fail(x.Front.AsError(err))
}

// An importReader reads a body that may be long, as long as it keeps arriving.
type importReader struct {
	x    *exchange
	body io.Reader
	left int   // until the deadline is set anew
	err  error // why a read failed; nil at the end of the body
}

// Len returns the length of the body, or 0 if it is not known. With it, too long a body is refused
// before it is sent.
func (r *importReader) Len() int { return max(int(r.x.R.ContentLength), 0) }

func (r *importReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		r.x.ReadDeadline(time.Now().Add(r.x.Front.Limits.BodyTimeout))
		r.left = importStep
	}
	n, err := r.body.Read(b[:min(len(b), r.left)])
	r.left -= n
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// QueryMany is the AuthRequest.Method of requests that run a statement on the databases of many
// actors.
const QueryMany = "sql.query_many"

// queryMany answers POST /query.
func (x *exchange) queryMany() {
	x.Count("", serve.LabelInspect)
	ctx, cancel := x.limited()
	defer cancel()
	var in host.QueryManyInput
	body, fault := x.Body()
	defer x.FreeBody()
	codec, known := x.codec()
	switch {
	case fault != nil:
	case !known || codec != host.JSON:
		fault = host.Errorf(host.InvalidArgument, "the Content-Type %q is not application/json",
			x.R.Header.Get("Content-Type"))
	default:
		fault = serve.DecodeJSON(body, &in)
		var given struct {
			Limit *int `json:"limit"`
		}
		if fault == nil && in.Limit == 0 && json.Unmarshal(body, &given) == nil && given.Limit != nil {
			fault = wrong("limit", "limit: 0 is not a number from 1 to 10000; leave it out for the default")
		}
	}
	if denied := x.Authorize(ctx, serve.Operate, host.Address{Type: in.Type, Key: in.Prefix},
		QueryMany); denied != nil {
		fault = denied
	}
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	x.Count(in.Type, serve.LabelInspect)
	out, err := x.g.opts.Databases.QueryMany(ctx, &in)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.JSON(http.StatusOK, out)
}
