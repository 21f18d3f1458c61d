package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A talk is a connection to an actor with a person or a program at the other end.
type talk struct {
	*cli
	conn     host.LiveConnection
	printing sync.Mutex
	failed   int         // calls
	closing  atomic.Bool // this end closes it
}

func (c *cli) connectCommand() *cobra.Command {
	var events []string
	var params string
	var existing, listen bool
	cmd := &cobra.Command{
		Use:               "connect TYPE/KEY...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := host.ConnectRequest{Events: events, Existing: existing}
			if params != "" {
				var err error
				if params == "-" {
					return usagef("--params: standard input is for calls; use @FILE")
				}
				if r.Params, err = c.input(params); err != nil {
					return err
				}
			}
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			return c.talk(cmd.Context(), a, r, listen)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&events, "event", nil, "subscribe to events of this name; may be given more than once")
	flags.StringVar(&params, "params", "", "what the actor's connect hook gets: JSON or @FILE")
	flags.BoolVar(&existing, "existing", false, "fail with not_found instead of creating the actor")
	flags.BoolVar(&listen, "listen", false, "stay when standard input ends")
	return cmd
}

// talk connects and returns when the connection is over.
func (c *cli) talk(ctx context.Context, a host.Address, r host.ConnectRequest, listen bool) error {
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	opening, cancel := c.requestContext(ctx)
	conn, err := n.Connect(opening, a, r)
	cancel()
	if err != nil {
		return c.explain(ctx, n, host.Request{Address: a}, err)
	}
	t := &talk{cli: c, conn: conn}
	if err := t.welcome(); err != nil {
		return err
	}
	// The end of the connection ends the calls, and the end of the input ends the connection.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() {
		over <- t.follow(ctx)
		stop()
	}()
	spoken := make(chan error, 1)
	go func() { spoken <- t.speak(ctx) }() // it may hang in a read of the terminal, and ends with the process
	select {
	case err = <-spoken:
		if err == nil && listen {
			<-ctx.Done()
		}
	case <-ctx.Done():
	}
	// Events are printed until the node says that all were sent: events of the last calls come
	// after the replies.
	t.closing.Store(true)
	closing, cancel := c.requestContext(context.WithoutCancel(ctx))
	defer cancel()
	if err := conn.Close(closing, false); err != nil {
		c.note("the connection could not be ended: %s", table.OneLine(err.Error()))
	}
	if ended := <-over; err == nil {
		err = ended
	}
	return err
}

// welcome prints the id of the connection.
func (t *talk) welcome() error {
	w := t.conn.Welcome()
	if t.json {
		return t.printJSON(struct {
			Connection string   `json:"connection"`
			Resumed    bool     `json:"resumed"`
			Events     []string `json:"events"`
		}{w.Connection, w.Resumed, append([]string{}, w.Events...)})
	}
	t.note("connected as %s", table.OneLine(w.Connection))
	return nil
}

// follow prints events until ctx ends or this end closes the connection, which are no errors, or
// the connection ends.
func (t *talk) follow(ctx context.Context) error {
	for {
		d, err := t.conn.Next(ctx)
		switch {
		case err != nil && (ctx.Err() != nil || t.closing.Load()):
			return nil
		case err != nil:
			return err
		}
		if err := t.deliver(&d); err != nil {
			return err
		}
	}
}

func (t *talk) deliver(d *host.Delivery) error {
	t.printing.Lock()
	defer t.printing.Unlock()
	if err := t.printMissed(d.Missed, d.Reset, "event"); err != nil {
		return err
	}
	for _, e := range d.Events {
		if err := t.printEvent(e); err != nil {
			return err
		}
	}
	return nil
}

// maxTalkCalls bounds the calls that are in flight at once.
const maxTalkCalls = 64

// speak makes the calls on standard input, several at a time, and returns when all are answered.
func (t *talk) speak(ctx context.Context) error {
	lines := file.NewLines(t.stdin)
	slots := make(chan struct{}, maxTalkCalls)
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		line, err := lines.Next()
		switch {
		case errors.Is(err, file.ErrNoMore):
			wg.Wait()
			if t.failed > 0 {
				return fmt.Errorf("%s failed", table.Plural(t.failed, "call"))
			}
			return nil
		case err != nil:
			return err
		case len(line) == 0:
			continue
		}
		method, input, _ := bytes.Cut(line, []byte(" "))
		r := &host.Request{Method: string(method), Codec: host.JSON, Input: bytes.TrimSpace(input)}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t.call(ctx, r)
		})
	}
	return nil
}

// call makes a call and prints the answer.
func (t *talk) call(ctx context.Context, r *host.Request) {
	limited, cancel := t.requestContext(ctx)
	reply, err := t.conn.Call(limited, r)
	cancel()
	t.printing.Lock()
	defer t.printing.Unlock()
	if err != nil {
		t.failed++
	}
	line := struct {
		Call    string      `json:"call"`
		Output  host.Raw    `json:"output,omitempty"`
		Version uint64      `json:"version,omitempty"`
		Error   *host.Error `json:"error,omitempty"`
	}{Call: r.Method, Output: reply.Output, Version: reply.Version}
	switch {
	case t.json:
		if err != nil && !errors.As(err, &line.Error) {
			line.Error = host.Errorf("local", "%v", err)
		}
		_ = t.printJSON(line) // nobody is there to be told
	case err != nil:
		t.note("%s: %s", table.OneLine(r.Method), table.OneLine(err.Error()))
	default:
		fmt.Fprintf(t.stdout, "%s\n", strings.TrimRight("= "+table.OneLine(r.Method)+" "+answer(reply.Output), " "))
	}
}

// answer is an output on one line.
func answer(output []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, output) != nil {
		return table.OneLine(string(output))
	}
	return table.OneLine(compact.String())
}
