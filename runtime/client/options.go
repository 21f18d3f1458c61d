package client

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"time"
)

// The defaults of Options.
const (
	DefaultAttempts      = 5
	DefaultBackoff       = 50 * time.Millisecond
	DefaultMaxBackoff    = 5 * time.Second
	DefaultReplyBytes    = 64 << 20
	DefaultStreamSilence = 45 * time.Second
)

// Options configure a Client. The zero value is legal.
type Options struct {
	// Token, if not "", is sent as "Authorization: Bearer <token>": the node's token, or one of the
	// actor whose key-value store alone the client uses. Plain HTTP exposes it to the network.
	Token string
	// Header is sent with every request, for example for a proxy. It cannot replace headers that
	// the client sets.
	Header http.Header
	// HTTPClient sends the requests. It must not have a Timeout, which would end event streams. Nil
	// means a new client, which keeps up to 256 idle connections and follows no redirects.
	HTTPClient *http.Client
	// Attempts bounds how often a request is sent, if earlier attempts fail in a way that allows
	// another: 5 by default. 1 sends each request once and adds no idempotency keys.
	Attempts int
	// Backoff is the longest wait before the second attempt; it doubles for each further one up to
	// MaxBackoff. The actual wait is a random part of it. 50 ms and 5 s by default. A node that
	// asks for a longer wait gets it, within MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// ReplyBytes bounds a reply and a single event: 64 MiB by default.
	ReplyBytes int64
	// StreamSilence is the time without a byte after which an event stream counts as dead and is
	// opened again: 45 s by default, three of the node's heartbeats.
	StreamSilence time.Duration
	// MaxOutage ends an event stream that could not be opened again for that long. 0 means to try
	// until the stream is closed.
	MaxOutage time.Duration
}

// EnsureDefaults returns o with its zero fields replaced by the defaults.
func (o Options) EnsureDefaults() Options {
	setDefault(&o.Attempts, DefaultAttempts)
	setDefault(&o.Backoff, DefaultBackoff)
	setDefault(&o.MaxBackoff, max(DefaultMaxBackoff, o.Backoff))
	setDefault(&o.ReplyBytes, DefaultReplyBytes)
	setDefault(&o.StreamSilence, DefaultStreamSilence)
	o.Header = maps.Clone(o.Header)
	return o
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate returns every fault of o in one error, or nil. Call EnsureDefaults before.
func (o Options) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("client: "+format, args...))
		}
	}
	fault(!printable(o.Token) || len(o.Token) != len(textproto.TrimString(o.Token)), "Token is not printable ASCII")
	fault(o.HTTPClient != nil && o.HTTPClient.Timeout != 0,
		"HTTPClient has a Timeout, which would cut event streams off: bound calls by their context")
	fault(o.Attempts < 0, "Attempts is %d: it must be positive", o.Attempts)
	fault(o.Backoff < 0, "Backoff is %v: it must be positive", o.Backoff)
	fault(o.MaxBackoff < o.Backoff, "MaxBackoff is %v: it must be at least Backoff, %v", o.MaxBackoff, o.Backoff)
	fault(o.ReplyBytes < 0, "ReplyBytes is %d: it must be positive", o.ReplyBytes)
	fault(o.StreamSilence < 0, "StreamSilence is %v: it must be positive", o.StreamSilence)
	fault(o.MaxOutage < 0, "MaxOutage is %v: it must not be negative", o.MaxOutage)
	return errors.Join(faults...)
}

// printable reports whether s can be a header's value unchanged.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
