// Command probe makes HTTP calls to a node in its own process, and writes which statements ran. It
// is built with -cover by the program above.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strings"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// calls is how often the action is called.
const calls = 1000

var (
	meters = actor.NewType[meter]("meter")
	record = actor.NewAction[int, int](meters, "record")
)

// meter is an actor with one action and no capability.
type meter struct{ N int }

func (c *meter) record(_ *actor.Context, n int) (int, error) { c.N += n; return c.N, nil }

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run calls the action of a warm actor, with the store in dir/data, and writes the counters to
// dir/counters.
func run(ctx context.Context, dir string) error {
	node, err := runtime.Open(ctx, runtime.Options{
		Dir: filepath.Join(dir, "data"), Logger: slog.New(slog.DiscardHandler),
		Actors: []actor.Definition{actor.Define(meters, actor.Spec[meter]{}, actor.On(record, (*meter).record))},
	})
	if err != nil {
		return err
	}
	server := httptest.NewServer(node.Handler())
	call := func(times int) (err error) {
		for range times {
			resp, perr := http.Post(server.URL+"/actors/meter/one/-/call/record",
				"application/json", strings.NewReader("1"))
			if perr != nil {
				return perr
			}
			body, rerr := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s: %s", resp.Status, body)
			}
			if err = errors.Join(err, rerr, resp.Body.Close()); err != nil {
				return err
			}
		}
		return nil
	}
	counters := filepath.Join(dir, "counters")
	err = call(20) // the actor wakes, and its type gets a pace
	if err == nil {
		err = errors.Join(os.MkdirAll(counters, 0o755), coverage.ClearCounters())
	}
	if err == nil {
		err = call(calls)
	}
	if err == nil {
		err = errors.Join(coverage.WriteMetaDir(counters), coverage.WriteCountersDir(counters))
	}
	server.Close()
	return errors.Join(err, node.Close())
}
