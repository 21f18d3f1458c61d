// Jobs shows queues and streams between processes that may die at any moment: a node, senders,
// workers and readers.
//
//	jobs node                                          runs the node
//	jobs send   --office zurich --from 1 --count 100   sends letters
//	jobs work   --office zurich --out carried.txt      carries them
//	jobs follow --office zurich --after 0              prints what was audited
//
// Each prints a line for everything that is certain: a letter that was accepted, one that was
// carried, one that was audited. chaos_test.go kills all four at random and counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/docs/examples/jobs/post"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/client"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		runtime.Program{Name: "jobs node", Dir: "data/jobs", Actors: []actor.Definition{post.Definition()}}.Main()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
}

// run runs one of the clients.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("say node, send, work or follow")
	}
	c := clerk{stdout: stdout}
	fs := flag.NewFlagSet("jobs "+args[0], flag.ContinueOnError)
	node := fs.String("node", "http://127.0.0.1:6420", "`URL` of the node")
	office := fs.String("office", "zurich", "`key` of the office")
	fs.IntVar(&c.from, "from", 1, "number of the first letter")
	fs.IntVar(&c.count, "count", 100, "how many letters to send")
	fs.StringVar(&c.prefix, "prefix", "letter", "what the ids of letters begin with")
	fs.StringVar(&c.out, "out", "carried.txt", "`file` to note carried letters in")
	fs.IntVar(&c.workers, "workers", 4, "how many letters to carry at a time")
	fs.Uint64Var(&c.after, "after", 0, "last `sequence` that is known")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	remote, err := client.New(*node, client.Options{})
	if err != nil {
		return err
	}
	defer remote.Close()
	c.office = post.Offices.Ref(remote, *office)
	switch args[0] {
	case "send":
		return c.send(ctx)
	case "work":
		return c.work(ctx)
	case "follow":
		return c.follow(ctx)
	}
	return fmt.Errorf("%q is none of node, send, work and follow", args[0])
}

// A clerk is what the clients share.
type clerk struct {
	stdout  io.Writer
	office  actor.Ref[post.Office]
	from    int
	count   int
	prefix  string
	out     string
	workers int
	after   uint64
}

// send sends letters one after the other and prints the number of each that was accepted. A sender
// that is started again with the number after the last repeats at most one letter, which the office
// knows by its id.
func (c *clerk) send(ctx context.Context) error {
	for i := c.from; i < c.from+c.count; i++ {
		l := post.Letter{ID: c.prefix + "-" + strconv.Itoa(i), Undeliverable: i%50 == 13}
		err := patiently(ctx, func() error {
			_, err := post.Accept.Call(ctx, c.office, l)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(c.stdout, i)
	}
	return nil
}

// work carries letters: it notes each in a file before it says that it is done.
func (c *clerk) work(ctx context.Context) error {
	f, err := os.OpenFile(c.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return patiently(ctx, func() error {
		return post.Letters.Of(c.office).Work(ctx, handle.WorkConfig{Workers: c.workers}, func(ctx context.Context, d *handle.Delivery[post.Letter, actor.None]) (actor.None, error) {
			if d.Body.Undeliverable {
				return actor.None{}, fmt.Errorf("nobody knows the address of %s", d.Body.ID)
			}
			_, err := fmt.Fprintln(f, d.Body.ID)
			return actor.None{}, err
		})
	})
}

// follow prints the sequence and the id of each letter that was audited.
func (c *clerk) follow(ctx context.Context) error {
	return patiently(ctx, func() error {
		for item, err := range post.Log.Of(c.office).Follow(ctx, handle.Position{After: c.after}) {
			if err != nil {
				return err
			}
			c.after = item.Sequence
			fmt.Fprintln(c.stdout, item.Sequence, item.Value)
		}
		return nil
	})
}

// patiently tries again while the node is away or the office does not exist yet.
func patiently(ctx context.Context, f func() error) error {
	for {
		err := f()
		var e *actor.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &e) || !e.Retryable && e.Code != actor.Unavailable && e.Code != actor.NotFound {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}
