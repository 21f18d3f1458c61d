package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
)

// ExportSQL writes an actor's SQLite database to w, as it is at one commit. It does not wake the
// actor. The error code is NotFound if the actor or its database does not exist.
//
// After an error w holds nothing, or a part that is not a database. The client retries only while w
// holds nothing.
func (c *Client) ExportSQL(ctx context.Context, a host.Address, w io.Writer) error {
	path, e := actorPath(a)
	if e != nil {
		return e
	}
	q := &request{method: http.MethodGet, path: path + "sqlite", header: c.header(), again: true}
	f := c.repeat(ctx, q, func() *failure {
		res, f := c.do(ctx, q)
		if f != nil {
			return f
		}
		defer res.Body.Close()
		out := &download{w: w}
		_, err := io.Copy(out, res.Body)
		switch {
		case err == nil:
			return nil
		case out.err != nil:
			return &failure{err: host.Errorf(host.Canceled, "the database cannot be written: %v", out.err)}
		case out.n == 0:
			return sendFailure(ctx, err)
		case ctx.Err() != nil:
			return &failure{err: contextError(ctx)}
		}
		return &failure{err: host.Errorf(host.Unavailable,
			"the node ended the export, or the connection was lost, after %d bytes: %v", out.n, err)}
	})
	if f != nil {
		return f.err
	}
	return nil
}

// A download counts the bytes written and keeps the error of a failed write.
type download struct {
	w   io.Writer
	n   int64
	err error
}

func (d *download) Write(b []byte) (int, error) {
	n, err := d.w.Write(b)
	d.n += int64(n)
	if err != nil {
		d.err = err
	}
	return n, err
}

// ImportSQL replaces an actor's SQLite database with the file, in one commit, and creates the actor
// if necessary. The node logs the reason, which has 1 to 1,024 bytes. The error code is
// InvalidArgument if the file is not a sound database or cannot be read, and TooLarge or
// QuotaExceeded if it does not fit.
//
// It tries again if the last attempt did nothing, and if the file is an io.Seeker or no byte of it
// was read. It does not try again after a lost connection, because a repeat would undo later
// changes: check the status then. ImportSQL does not read the file after it returns.
func (c *Client) ImportSQL(ctx context.Context, a host.Address, file io.Reader,
	reason string) (host.SQLStatusOutput, error) {
	var out host.SQLStatusOutput
	path, e := actorPath(a)
	if e != nil {
		return out, e
	}
	h := c.header()
	h.Set("Content-Type", "application/vnd.sqlite3")
	h.Set("Expect", "100-continue")
	q := &request{method: http.MethodPut,
		path: path + "sqlite?" + url.Values{"reason": {reason}}.Encode(), header: h, file: newUpload(file)}
	answer, f := c.send(ctx, q)
	q.file.close()
	switch {
	case f != nil && q.file.fault != nil:
		return out, host.Errorf(host.InvalidArgument, "the file cannot be read: %v", q.file.fault)
	case f != nil:
		return out, f.err
	}
	if err := json.Unmarshal(answer.body, &out); err != nil {
		return out, host.Errorf(host.Internal, "the node's answer is not the JSON that was expected: %v", err)
	}
	return out, nil
}

// An upload is a file that is the body of a request. net/http may continue to read a body after the
// answer, so each attempt has its own body, and only the body of the last attempt reads the file.
type upload struct {
	file   io.Reader
	seeker io.Seeker // nil if the file cannot be read anew
	start  int64     // the position in the file where the body begins
	size   int64     // -1 if it is not known

	mu      sync.Mutex
	attempt int   // a count; only the body of the last attempt reads
	read    bool  // a part was read
	fault   error // why the file could not be read
}

func newUpload(file io.Reader) *upload {
	u := &upload{file: file, size: -1}
	s, ok := file.(io.Seeker)
	if !ok {
		return u
	}
	// A pipe is a file in which Seek fails.
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return u
	}
	end, err := s.Seek(0, io.SeekEnd)
	if _, back := s.Seek(start, io.SeekStart); err != nil || back != nil {
		u.fault = errors.Join(err, back)
		return u
	}
	u.seeker, u.start, u.size = s, start, max(end-start, 0)
	return u
}

// body returns the body of the next attempt.
func (u *upload) body() io.ReadCloser {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempt++
	return &uploadBody{u, u.attempt}
}

// close ends the reading and waits for the last read. The file stays open.
func (u *upload) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempt++
}

// rewind seeks the file back to its start and reports whether it could. A nil upload always can.
func (u *upload) rewind() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempt++
	switch {
	case u.fault != nil, u.read && u.seeker == nil:
		return false
	case u.read:
		if _, err := u.seeker.Seek(u.start, io.SeekStart); err != nil {
			u.fault = err
			return false
		}
	}
	u.read = false
	return true
}

// An uploadBody reads the file for one attempt.
type uploadBody struct {
	u       *upload
	attempt int
}

func (b *uploadBody) Read(p []byte) (int, error) {
	u := b.u
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.attempt != b.attempt:
		return 0, io.ErrClosedPipe
	case u.fault != nil:
		return 0, u.fault
	}
	u.read = true
	n, err := u.file.Read(p)
	if err != nil && err != io.EOF {
		u.fault = err
	}
	return n, err
}

func (b *uploadBody) Close() error { return nil }
