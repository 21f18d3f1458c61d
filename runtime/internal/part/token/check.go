package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/signal"
)

// Check implements token.Checker.
func Check(ctx context.Context, k *kernel.Kernel, a host.Address, text string) (*token.Grant, error) {
	id, digest, ok := token.Parse(text)
	if !ok {
		return nil, token.ErrInvalid
	}
	c := &check{k: k, addr: a, id: id, digest: digest}
	key, failed := address.Append(nil, a), kernel.PartOf[*Part](k).failed
	if err := failed.before(ctx, c, key); err != nil {
		return nil, err
	}
	r, err := c.read(ctx)
	if err == token.ErrInvalid {
		return nil, failed.note(key)
	}
	if err != nil {
		return nil, err
	}
	c.expires = r.Expires
	return &token.Grant{ID: id, Rights: r.Rights, Prefix: r.Prefix, During: c.during}, nil
}

// A check is a token that a client has shown.
type check struct {
	k       *kernel.Kernel
	addr    host.Address
	id      string
	digest  token.Digest
	expires int64 // Unix ms; 0 is never
}

// read returns the row of the token, if it is valid. The row is found by the id, and the secret is
// compared by its digest in constant time. An actor that is not there has no tokens.
func (c *check) read(ctx context.Context) (r row, err error) {
	err = c.look(ctx, func(rows engine.Reader, now time.Time) (err error) {
		var ok bool
		if r, ok, err = read(rows, c.id, now); err != nil {
			return err
		}
		if !ok || subtle.ConstantTimeCompare(r.Digest, c.digest[:]) != 1 {
			return token.ErrInvalid
		}
		return nil
	})
	return r, err
}

// look calls f with the rows of the actor's last commit. Strangers do not get the actor's errors:
// then it has no tokens.
func (c *check) look(ctx context.Context, f func(rows engine.Reader, now time.Time) error) error {
	err := call.RouterOf(c.k).Look(ctx, c.addr, "token", func(q *call.Query) error {
		rows, done, err := q.Rows()
		if err != nil {
			return err
		}
		defer done()
		return f(rows, q.Now())
	})
	switch host.CodeOf(err) {
	case "", host.Unavailable, host.Canceled, host.DeadlineExceeded, host.Overloaded:
		return err
	}
	return token.ErrInvalid
}

// during calls f with a context that ends when the token is revoked or expires, or the actor is
// destroyed. After f it reads the token again: f may have returned after the end of the token,
// before its context ended.
func (c *check) during(ctx context.Context, f func(context.Context) error) error {
	sub := c.k.Signals.Subscribe(string(address.Append(nil, c.addr)), topic)
	defer sub.Close()
	if _, err := c.read(ctx); err != nil {
		return err
	}
	live, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := c.watch(live, sub); err != nil {
			cancel(err)
		}
	}()
	err := f(live)
	ended, _ := errors.AsType[*host.Error](context.Cause(live))
	cancel(nil)
	<-over
	switch {
	case err != nil && ended != nil:
		return ended
	case err != nil:
		return err
	}
	_, err = c.read(ctx)
	return err
}

// watch returns the error of the token when it is no longer valid, and nil when ctx ends before.
func (c *check) watch(ctx context.Context, sub *signal.Subscription) error {
	var due <-chan time.Time
	var timer *time.Timer
	left := func() time.Duration { return max(time.Until(time.UnixMilli(c.expires)), time.Millisecond) }
	if c.expires != 0 {
		timer = time.NewTimer(left())
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-sub.C:
		case <-due:
			timer.Reset(left()) // the wall clock counts, and may have been set back
		case <-ctx.Done():
			return nil
		}
		if sub.Destroyed() {
			return fault.Destroyed()
		}
		if _, err := c.read(ctx); err != nil {
			return err
		}
	}
}
