package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/slip"
)

// A reader is what a running node and the directory of a stopped one have in common.
type reader interface {
	host.Inspector
	host.RunLister
	trace.Documents
	Lookup(ctx context.Context, a host.Address) (host.Status, error)
	List(ctx context.Context, q host.ListQuery) (host.ListPage, error)
	ExportSQL(ctx context.Context, a host.Address, w io.Writer) error
	QueryMany(ctx context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error)
	Audit(ctx context.Context, q audit.Query) (audit.Page, error)
}

// connect returns a client of the node that --url names. It does not yet talk to it.
func (c *cli) connect(o client.Options) (*client.Client, error) {
	o.Token = c.nodeToken()
	if o.Attempts == 0 {
		o.Attempts = c.attempts
	}
	n, err := client.New(c.url, o)
	if err != nil {
		var fault *host.Error
		if errors.As(err, &fault) {
			return nil, usagef("--url: %s", fault.Message)
		}
		return nil, usageError{err}
	}
	c.connected = true
	return n, nil
}

// open returns the node that --url names or, if dir is not "", the stopped node whose data is
// there, and a function that closes it.
func (c *cli) open(ctx context.Context, dir string) (reader, func(), error) {
	if dir == "" {
		n, err := c.connect(client.Options{})
		if err != nil {
			return nil, nil, err
		}
		return n, n.Close, nil
	}
	offline, err := runtime.Inspect(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	return offline, func() {
		if err := offline.Close(); err != nil {
			c.note("closing %s: %s", dir, err)
		}
	}, nil
}

// explain adds to an error of the node what was likely meant: a type or a method that differs by a
// slip.
func (c *cli) explain(ctx context.Context, n reader, r host.Request, err error) error {
	var remote *host.Error
	if !errors.As(err, &remote) {
		return err
	}
	switch {
	case remote.Code == host.UnknownType:
		ctx, cancel := c.requestContext(ctx)
		defer cancel()
		if meant, ok := slip.Nearest(r.Type, types(ctx, n)); ok && meant != r.Type {
			return hintedError{err, []string{"did you mean " + formatAddress(meant, r.Key) + "?"}}
		}
	case remote.Code == host.UnknownMethod && r.Type == cell.Type.Name():
		methods := cellMethods()
		if meant, ok := slip.Nearest(r.Method, methods); ok {
			return hintedError{err, []string{"did you mean " + meant + "?"}}
		}
		return hintedError{err, []string{"a cell has: " + strings.Join(methods, ", ")}}
	}
	return err
}

// typePages bounds how many pages of actors are read to learn the types on a node.
const typePages = 20

// types lists the types of the first actors on the node, in order, and cell if the node hosts it.
func types(ctx context.Context, n reader) []string {
	var types []string
	_, err := n.Lookup(ctx, host.Address{Type: cell.Type.Name()})
	if err == nil || host.CodeOf(err) == host.NotFound {
		types = append(types, cell.Type.Name())
	}
	q := host.ListQuery{Limit: maxPage, Brief: true}
	for range typePages {
		page, err := n.List(ctx, q)
		if err != nil {
			break
		}
		for _, s := range page.Actors {
			if !slices.Contains(types, s.Type) {
				types = append(types, s.Type)
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	slices.Sort(types)
	return types
}

// cellMethods lists the actions and queries of the built-in type.
func cellMethods() []string {
	var names []string
	for _, m := range cell.Definition().Behavior().Methods {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}
