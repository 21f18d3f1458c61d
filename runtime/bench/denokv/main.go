// Command denokv measures writes of the published client of Deno KV on a durable actor, beside a
// server that answers the client with the same bytes and does nothing. Both run in this process,
// and the client in Node.js. They take turns, so that both have the same machine in the same
// minutes.
package main

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often both are measured")
	span := flag.Duration("time", 3*time.Second, "duration of each measurement")
	callers := flag.Int("callers", 64, "writes at a time")
	dir := flag.String("dir", "", "directory for the data; default a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *dir, *rounds, *callers, *span); err != nil {
		fmt.Fprintln(os.Stderr, "denokv:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, dir string, rounds, callers int, span time.Duration) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "bench-denokv-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	node, err := runtime.Open(ctx, runtime.Options{
		Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Actors: []actor.Definition{cell.Definition()},
	})
	if err != nil {
		return err
	}
	defer node.Close()
	stub, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(canned)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(stub) }()
	defer func() {
		server.Close()
		<-done
	}()

	var rates [2][]float64
	var ratios []float64
	for round := range rounds {
		for i, url := range []string{"http://" + node.Addr() + "/kv/bench",
			"http://" + stub.Addr().String() + "/kv/bench"} {
			rate, err := measure(ctx, url, callers, span)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
		ratios = append(ratios, rates[0][round]/rates[1][round])
	}
	fmt.Printf("%d writes at a time, %d rounds of %s, medians: node %.0f/s, canned replies %.0f/s, ratio %.2f (%.2f to %.2f)\n",
		callers, rounds, span, median(rates[0]), median(rates[1]), median(ratios), slices.Min(ratios), slices.Max(ratios))
	return nil
}

func median(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }

// measure runs the client, and returns its writes per second.
func measure(ctx context.Context, url string, callers int, span time.Duration) (float64, error) {
	cmd := exec.CommandContext(ctx, "node", "client.mjs", url, fmt.Sprint(callers), fmt.Sprint(span.Milliseconds()))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("the client: %w; npm ci in runtime/bench/denokv installs it", err)
	}
	var writes, ms float64
	if _, err := fmt.Sscan(string(out), &writes, &ms); err != nil || ms <= 0 {
		return 0, fmt.Errorf("the client says %q", out)
	}
	return writes / ms * 1000, nil
}

// written is the answer to a write that succeeded.
var written, _ = hex.DecodeString("0801120a00000000000000010000")

// canned answers as a node does, and does nothing.
func canned(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/atomic_write") {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(written)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"version":3,"databaseId":"00000000-0000-4000-8000-000000000000","endpoints":[{"url":"/kv/bench","consistency":"strong"}],"token":"none","expiresAt":%q}`,
		time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"))
}
