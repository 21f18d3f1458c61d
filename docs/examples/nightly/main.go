// Nightly closes the books of a company every night: a schedule begins a workflow, which has a bill
// made for every tenant, a few at a time, by workflows in actors of their own, and collects their
// results. It may be restarted or lose power in the middle of the night: every tenant has one bill,
// and it counts once.
//
//	go run ./docs/examples/nightly
//
// does not wait for the night: it triggers the schedule, and prints the report. nightly.go has the
// actors and the workflows.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

func main() {
	if err := open(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "nightly")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	press := press(func(context.Context, string) error { return nil })
	rt, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: press.definitions()})
	if err != nil {
		return err
	}
	defer rt.Close()
	company, err := found(ctx, rt)
	if err != nil {
		return err
	}
	if err := Nightly.Of(company).Trigger(ctx); err != nil {
		return err
	}
	for {
		c, err := Show.Call(ctx, company, actor.None{})
		if err != nil {
			return err
		}
		if len(c.Reports) > 0 {
			tell(out, c.Reports)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// found makes a company with tenants. All but one of them have used something.
func found(ctx context.Context, node actor.Node) (actor.Ref[Company], error) {
	company := Companies.Ref(node, "cairn")
	var tenants []string
	for i := range 8 {
		name := string(rune('a' + i))
		tenants = append(tenants, name)
		if i == 5 {
			continue
		}
		if _, err := Use.Call(ctx, Tenants.Ref(node, name), 100*(i+1)); err != nil {
			return company, err
		}
	}
	_, err := Open.Call(ctx, company, tenants)
	return company, err
}

func tell(out io.Writer, reports []Report) {
	for i, r := range reports {
		fmt.Fprintf(out, "night %d: %d bills, %d.%02d\n", i+1, r.Bills, r.Cents/100, r.Cents%100)
		for _, f := range r.Failed {
			fmt.Fprintf(out, "  %s\n", f)
		}
	}
}
