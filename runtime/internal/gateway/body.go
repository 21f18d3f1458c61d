package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// codec tells from the Content-Type how input and output are encoded: JSON unless it says CBOR. A request without a body
// may say anything.
func (x *exchange) codec() (host.Codec, bool) {
	v := x.r.Header["Content-Type"]
	if len(v) == 0 {
		return host.JSON, true
	}
	switch v[0] {
	case "", "application/json":
		return host.JSON, true
	case "application/cbor":
		return host.CBOR, true
	}
	media, params, err := mime.ParseMediaType(v[0])
	charset := params["charset"]
	switch {
	case x.r.ContentLength == 0:
		return host.JSON, true
	case err != nil:
	case media == "application/cbor":
		return host.CBOR, true
	case media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8")):
		return host.JSON, true
	}
	return 0, false
}

// firstRead is how much memory a body gets before any of it has arrived: what a header promises is not yet there.
const firstRead = 64 << 10

// body reads the request's body: nil if it is empty.
//
// The buffer is fresh for each request and not from a pool. After a call that was given up, the turn may still be
// reading its input, and a body of usual size costs one small allocation.
func (x *exchange) body() ([]byte, *host.Error) {
	n, limit := x.r.ContentLength, x.g.opts.Limits.BodyBytes
	switch {
	case n == 0:
		return nil, nil
	case n > limit:
		// The rest is not read, so the connection cannot be used again.
		x.w.Header().Set("Connection", "close")
		return nil, tooLong("body", limit, n)
	}
	x.readDeadline(time.Now().Add(x.g.opts.Limits.BodyTimeout))
	var buf []byte
	var err error
	if n > 0 && n <= firstRead {
		buf = make([]byte, n)
		_, err = io.ReadFull(x.r.Body, buf)
	} else {
		b := bodyReader{Reader: http.MaxBytesReader(x.w, x.r.Body, limit), of: &x.g.memory}
		buf, err = io.ReadAll(&b)
		if x.held += b.held; b.full {
			x.w.Header().Set("Connection", "close")
			return nil, crowded(x.g.memory.limit)
		}
	}
	if err == nil {
		x.readDeadline(time.Time{})
		return buf, nil
	}
	// The deadline stays, or net/http would wait without one for the rest of the body.
	x.w.Header().Set("Connection", "close")
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return nil, tooLong("body", limit, limit+1)
	}
	return nil, bodyFault(err)
}

// readDeadline bounds the reading of the body where the connection can do that.
func (x *exchange) readDeadline(at time.Time) {
	if c, ok := x.w.(interface{ SetReadDeadline(time.Time) error }); ok {
		c.SetReadDeadline(at)
		return
	}
	http.NewResponseController(x.w).SetReadDeadline(at)
}

// tooLong is the error for a body of at least actual bytes, or for a message.
func tooLong(what string, limit, actual int64) *host.Error {
	e := host.OverLimit(what, limit, actual)
	e.Message = fmt.Sprintf("the %s is longer than %d bytes", what, limit)
	return e
}

func bodyFault(err error) *host.Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return host.Errorf(host.DeadlineExceeded, "the body took too long to arrive")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return host.Errorf(host.Canceled, "the body ended early")
	}
	return host.Errorf(host.InvalidArgument, "the body cannot be read")
}
