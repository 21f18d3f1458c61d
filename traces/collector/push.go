package collector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/cairn-run/cairn/traces"
)

// A Pusher sends past spans to a collector, and waits for it. Unlike an [Exporter] it fails at once
// if the collector cannot be reached.
type Pusher struct {
	client     uploader
	to         string // the URL, for errors
	attributes []traces.Attribute
}

// NewPusher returns a pusher to a collector at a URL such as http://localhost:4318. If it is empty,
// the OTEL_* variables of the environment name the collector. Other variables always apply.
func NewPusher(endpoint string) (*Pusher, error) {
	c, err := newClient(spans, endpoint)
	if err != nil {
		return nil, err
	}
	c.once = true
	p := &Pusher{client: c, to: c.url}
	if u, err := url.Parse(c.url); err == nil {
		p.to = u.Redacted()
	}
	p.attributes, err = traces.EnvironmentAttributes(context.Background())
	return p, err
}

// Endpoint returns the URL of the collector, without a password.
func (p *Pusher) Endpoint() string { return p.to }

// Close closes the connections.
func (p *Pusher) Close() { p.client.close() }

// Push sends spans, and returns how many the collector accepted. Open spans end at now. It adds the
// attributes of the environment to resources.
func (p *Pusher) Push(ctx context.Context, now int64, groups ...traces.Group) (sent int, err error) {
	for _, g := range groups {
		resource := p.resource(g.Resource)
		for rest := g.Spans; len(rest) > 0; {
			n, size := 0, 0
			for n < len(rest) && n < defaultBatching.batch && (n == 0 || size+rest[n].Size() <= maxRequest) {
				size += rest[n].Size()
				n++
			}
			rejected, err := p.client.upload(ctx, now, []traces.Group{{Resource: resource, Spans: rest[:n]}})
			if err != nil {
				return sent, p.explain(err)
			}
			sent += n - int(rejected)
			if rejected > 0 {
				return sent, fmt.Errorf("traces: the collector at %s rejected %d of %d spans", p.to, rejected, n)
			}
			rest = rest[n:]
		}
	}
	return sent, nil
}

// resource returns a resource with the attributes of the environment.
func (p *Pusher) resource(r *traces.Resource) *traces.Resource {
	if r == nil || len(p.attributes) == 0 {
		return r
	}
	own := slices.DeleteFunc(slices.Clone(r.Attributes), func(a traces.Attribute) bool {
		return slices.ContainsFunc(p.attributes, func(b traces.Attribute) bool { return a.Key == b.Key })
	})
	return &traces.Resource{Attributes: append(own, p.attributes...)}
}

// explain adds the collector to a fault.
func (p *Pusher) explain(err error) error {
	var u *url.Error
	switch {
	case !errors.As(err, &u):
		return fmt.Errorf("%w: %s", err, p.to)
	case u.Timeout():
		return fmt.Errorf("traces: the collector at %s does not answer in time", p.to)
	}
	return fmt.Errorf("traces: the collector at %s cannot be reached: %w", p.to, u.Err)
}
