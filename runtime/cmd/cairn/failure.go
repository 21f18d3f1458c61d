package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/shell"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A usageError is a fault of the command line. Nothing was sent to a node.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A hintedError is an error together with what the person at the terminal can do about it.
type hintedError struct {
	err   error
	hints []string
}

func (e hintedError) Error() string { return e.err.Error() }
func (e hintedError) Unwrap() error { return e.err }

// fail reports err and returns the exit status that goes with it.
func (c *cli) fail(ctx context.Context, cmd *cobra.Command, err error) int {
	status := exitError
	var usage usageError
	if errors.As(err, &usage) {
		status = exitUsage
	}
	var hints []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case hintedError:
			hints = append(hints, e.hints...)
		case *shell.LineError:
			hints = append(hints, "at "+e.Where)
		}
	}
	var remote *host.Error
	isRemote := errors.As(err, &remote)
	if c.connected && isRemote && remote.Code == host.Unavailable && c.refused(ctx) {
		if remote.Retryable {
			remote = host.Errorf(host.Unavailable, "no node answers at %s", c.url).Retry()
			err = remote
		} else {
			// The connection was lost under way: what it says about the outcome must stay.
			hints = append(hints, "no node answers at "+c.url+" any more")
		}
		hints = append(hints, "start one with: cairn serve", "or name another with --url or CAIRN_URL")
	}
	if isRemote && remote.Code == host.Unauthenticated {
		hints = append(hints, "give the node's token with --token or CAIRN_TOKEN")
	}
	if c.json {
		c.failJSON(status, err, remote, hints)
		return status
	}

	name := "error:"
	if c.colour(c.stderr) {
		name = table.Red + name + table.Plain
	}
	switch {
	case status == exitUsage:
		fmt.Fprintf(c.stderr, "%s %s\n", name, strings.TrimSpace(err.Error()))
		if cmd != nil {
			fmt.Fprintf(c.stderr, "usage: %s\n", cmd.UseLine())
			fmt.Fprintf(c.stderr, "help:  %s --help\n", cmd.CommandPath())
		}
	case isRemote:
		fmt.Fprintf(c.stderr, "%s %s: %s\n", name, remote.Code, cmp.Or(table.OneLine(remote.Message), "no message"))
		for _, k := range slices.Sorted(maps.Keys(remote.Metadata)) {
			fmt.Fprintf(c.stderr, "  %s: %s\n", table.OneLine(k), table.OneLine(remote.Metadata[k]))
		}
		if remote.Retryable {
			fmt.Fprintln(c.stderr, "  nothing was done; the same call may succeed later")
		}
	default:
		fmt.Fprintf(c.stderr, "%s %s\n", name, err)
	}
	for _, h := range hints {
		fmt.Fprintf(c.stderr, "  %s\n", h)
	}
	if isRemote && remote.Code.Known() {
		fmt.Fprintf(c.stderr, "  see docs/errors/%s.md\n", remote.Code)
	}
	return status
}

// failJSON prints {"error":{...}} on standard error. A usage error has the code "usage", an error
// of this machine (a file that cannot be read) has "local"; both are not codes of the wire format.
func (c *cli) failJSON(status int, err error, remote *host.Error, hints []string) {
	type failure struct {
		Code      string            `json:"code"`
		Message   string            `json:"message"`
		Metadata  map[string]string `json:"metadata,omitempty"`
		Retryable bool              `json:"retryable,omitempty"`
		Hints     []string          `json:"hints,omitempty"`
		Page      string            `json:"page,omitempty"`
	}
	f := failure{Code: "local", Message: strings.TrimSpace(err.Error()), Hints: hints}
	switch {
	case status == exitUsage:
		f.Code = "usage"
	case remote != nil:
		f.Code, f.Message, f.Metadata, f.Retryable = string(remote.Code), remote.Message,
			remote.Metadata, remote.Retryable
		if remote.Code.Known() {
			f.Page = "docs/errors/" + string(remote.Code) + ".md"
		}
	}
	b, encodeErr := json.Marshal(map[string]failure{"error": f})
	if encodeErr != nil {
		// Invalid UTF-8 is replaced, not refused: strings always encode.
		panic(encodeErr)
	}
	fmt.Fprintf(c.stderr, "%s\n", b)
}

// refused reports whether nothing listens at the node's address. It connects to find out, because
// an *Error does not tell a missing node from an unavailable one.
func (c *cli) refused(ctx context.Context) bool {
	u, err := url.Parse(c.url)
	if err != nil || u.Hostname() == "" {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
		port = cmp.Or(port, "80")
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.WithoutCancel(ctx), "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return true
	}
	conn.Close()
	return false
}
