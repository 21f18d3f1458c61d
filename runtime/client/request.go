package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// A request is an HTTP request that can be sent more than once.
type request struct {
	method, path string
	header       http.Header
	body         []byte
	// file, if not nil, is the body instead.
	file *upload
	// again allows another attempt after one whose outcome is unknown.
	again bool
	// gone are the codes that mean success after an attempt whose outcome is unknown.
	gone []host.Code
}

// An answer is a complete response with a status of success.
type answer struct {
	header http.Header
	body   []byte
}

// newKey makes an unused idempotency key.
func newKey() string { return rand.Text() }

// header makes the header of all requests.
func (c *Client) header() http.Header {
	h := make(http.Header, len(c.opts.Header)+4)
	for name, values := range c.opts.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if c.opts.Token != "" {
		h.Set("Authorization", "Bearer "+c.opts.Token)
	}
	return h
}

// send sends a request until its answer is final.
func (c *Client) send(ctx context.Context, q *request) (answer, *failure) {
	var a answer
	f := c.repeat(ctx, q, func() (f *failure) {
		if a, f = c.once(ctx, q); f != nil {
			a.header = http.Header{} // the failed attempt may still count as a success
		}
		return f
	})
	return a, f
}

// repeat makes attempts at a request until one is final.
func (c *Client) repeat(ctx context.Context, q *request, try func() *failure) *failure {
	lost := false
	for attempt := 1; ; attempt++ {
		f := try()
		if f == nil || lost && slices.Contains(q.gone, f.err.Code) {
			return nil
		}
		lost = lost || f.lost
		switch {
		case q.method == http.MethodGet:
			f.err.Retryable = f.err.Retryable || f.lost
		case lost:
			// This attempt may have done nothing, but an earlier one may have done something.
			f.err.Retryable = false
		}
		if f.err.Code == host.ActorPaused || f.err.Code == host.ActorFailed && f.after > c.opts.MaxBackoff {
			return f // until a person acts; the caller decides whether to wait for that
		}
		if attempt >= c.opts.Attempts || !f.nothing && !(f.lost && q.again) || !q.file.rewind() {
			return f
		}
		if !sleep(ctx, c.wait(attempt, f.after)) {
			e := contextError(ctx)
			e.Message += "; before that: " + f.err.Error()
			return &failure{err: e}
		}
	}
}

// wait returns how long to wait after an attempt: a random part of the exponential backoff, or
// longer if the node asks for it, up to MaxBackoff.
func (c *Client) wait(attempt int, asked time.Duration) time.Duration {
	most := c.opts.MaxBackoff
	if shift := attempt - 1; shift < 32 {
		if d := c.opts.Backoff << shift; d > 0 && d < most {
			most = d
		}
	}
	return min(max(mathrand.N(most)+1, asked), c.opts.MaxBackoff)
}

// sleep waits and reports whether the context is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// do sends a request once and returns the response if its status means success. Its body is open.
func (c *Client) do(ctx context.Context, q *request) (*http.Response, *failure) {
	r, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, nil)
	if err != nil {
		return nil, &failure{err: host.Errorf(host.InvalidArgument, "the request cannot be made: %v", err)}
	}
	if o := audit.Of(ctx); o != nil && o.Reason != "" {
		q.header.Set(audit.Header, audit.FormatReason(o.Reason))
	}
	r.Header = q.header
	switch {
	case q.file != nil:
		r.Body, r.ContentLength = q.file.body(), q.file.size
	case len(q.body) > 0:
		r.ContentLength = int64(len(q.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
		r.Body, _ = r.GetBody()
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, sendFailure(ctx, err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	const most = 1 << 20 // an error is short; other bodies need not be read to their end
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return nil, sendFailure(ctx, err)
	}
	return nil, answerFailure(res.StatusCode, res.Header, body)
}

// once sends a request once and reads the whole response.
func (c *Client) once(ctx context.Context, q *request) (answer, *failure) {
	res, f := c.do(ctx, q)
	if f != nil {
		return answer{}, f
	}
	defer res.Body.Close()
	limit, n := c.opts.ReplyBytes, res.ContentLength
	a := answer{header: res.Header}
	var err error
	switch {
	case n > limit:
		return answer{}, tooLong(limit, n)
	case n == 0:
	case n > 0 && n <= 1<<20:
		a.body = make([]byte, n)
		if _, err = io.ReadFull(res.Body, a.body); err == nil {
			// net/http reuses the connection only after reading the end.
			_, err = io.Copy(io.Discard, res.Body)
		}
	default:
		if a.body, err = io.ReadAll(io.LimitReader(res.Body, limit+1)); err == nil && int64(len(a.body)) > limit {
			return answer{}, tooLong(limit, int64(len(a.body)))
		}
	}
	if err != nil {
		return answer{}, sendFailure(ctx, err)
	}
	if len(a.body) == 0 {
		a.body = nil
	}
	return a, nil
}

// tooLong returns the failure for a reply of at least actual bytes.
func tooLong(limit, actual int64) *failure {
	e := host.OverLimit("reply", limit, actual)
	e.Message = fmt.Sprintf("the reply is longer than %d bytes; what was called is done", limit)
	return &failure{err: e}
}
