package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// An sse is a body with server-sent events. It ends after Options.StreamSilence without a byte.
type sse struct {
	c       *Client
	body    io.ReadCloser
	r       *bufio.Reader
	cancel  context.CancelFunc
	silence *time.Timer
	buf     []byte
	id      string    // of the last event that has an id; "" if there was none
	date    time.Time // when it began, by the clock of the node; zero if unknown
}

// listen sends a request whose answer is server-sent events. The context that it returns ends with
// them.
func (c *Client) listen(ctx context.Context, q *request) (*sse, context.Context, *failure) {
	ctx, cancel := context.WithCancel(ctx)
	s := &sse{c: c, cancel: cancel, silence: time.AfterFunc(c.opts.StreamSilence, cancel)}
	res, f := c.do(ctx, q)
	if f != nil {
		timedOut := !s.silence.Stop()
		cancel()
		if timedOut {
			f = &failure{err: host.Errorf(host.Unavailable, "the node did not answer in time").Retry(), lost: true}
		}
		return nil, nil, f
	}
	s.body, s.r = res.Body, bufio.NewReaderSize(res.Body, 16<<10)
	s.date, _ = http.ParseTime(res.Header.Get("Date"))
	if media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); media != "text/event-stream" {
		s.close()
		return nil, nil,
			&failure{err: host.Errorf(host.Internal, "the node's answer is %q and not a stream of events", media)}
	}
	return s, ctx, nil
}

func (s *sse) close() {
	s.silence.Stop()
	s.cancel()
	s.body.Close()
}

// line reads one line without its end. The result is valid until the next call. held is the number
// of bytes already held of the same event.
func (s *sse) line(held int) ([]byte, error) {
	limit := s.c.opts.ReplyBytes
	s.buf = s.buf[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		if n := int64(len(s.buf) + len(part) + held); n > limit {
			return nil, host.OverLimit("event", limit, n)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		s.silence.Reset(s.c.opts.StreamSilence)
		if err == nil && len(s.buf) == 0 {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		if s.buf = append(s.buf, part...); err == nil {
			return bytes.TrimRight(s.buf, "\r\n"), nil
		}
	}
}
