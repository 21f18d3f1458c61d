package main

import (
	"context"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// controlOffline does a verb to the run of an actor in the data of a node that is stopped, and
// reports what it did.
func (c *cli) controlOffline(ctx context.Context, dir, actor, done string, control host.RunControl) (err error) {
	a, err := parseAddress(actor)
	if err != nil {
		return usageError{err}
	}
	o, err := runtime.Inspect(ctx, dir)
	if err != nil {
		return err
	}
	if err := o.ControlRun(ctx, a, control); err != nil {
		o.Close() // the verb was not done, which is what to report
		return err
	}
	if err := o.Close(); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"done": done})
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %s\n", formatAddress(a.Type, a.Key), done)
	return err
}
