package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

func (c *cli) limitsCommand() *cobra.Command {
	return group("limits", "Set limits of one actor",
		"limits sets limits of one actor, which go before those of its type: how much it stores, how many calls wait for it\n"+
			"and so on. They outlast restarts of the node, until they are reset or the actor is destroyed. `cairn status` shows\n"+
			"them, with --json as the member limits. Limits of a whole type are set in the configuration file.",
		"  cairn limits set cell/acme storage=2GiB mailbox_count=10000\n  cairn limits reset cell/acme storage",
		row[host.ActorLimits, host.ActorLimits]{
			use:   "set TYPE/KEY... LIMIT=VALUE...",
			short: "Set limits of an actor",
			long: "set sets limits of an actor, at once and durably; others that are set stay. The limits are\n\n" +
				"  storage       bytes of all keys and values, the SQLite database among them\n" +
				"  write_set     bytes that one turn writes\n" +
				"  value         bytes of one value of the key-value store\n" +
				"  state         bytes of the state\n" +
				"  mailbox_count calls that wait\n" +
				"  mailbox       bytes of their inputs\n" +
				"  connections   clients that are connected or may come back\n" +
				"  call_rate     calls from outside per second; 0 does not bound them\n" +
				"  call_burst    how many of them at once\n" +
				"  sql_memory    bytes of memory of one connection to the SQLite database, at most what the node allows\n" +
				"  sql_temporary bytes of its temporary files, at most what the node allows\n" +
				"  sql_turn      bytes of the pages of the database that one turn changes\n" +
				"  sql_value     bytes of one string, blob or row of the database\n\n" +
				"Bytes are a number, or one with KiB, MiB, GiB or TiB. The actor is not woken, and must exist.\n\n" +
				"With --json it prints the limits that are set for the actor, as the method limits.set does.",
			example: "  cairn limits set cell/acme storage=2GiB\n  cairn limits set cell/acme call_rate=50 call_burst=200",
			method:  method.LimitsSet,
			check: func(l line, in *host.ActorLimits) (err error) {
				if *in, err = parseLimits(l.args); err != nil {
					return usageError{err}
				}
				return nil
			},
			print: func(t *target, _, out *host.ActorLimits) error { return t.result(out, "%s\n", limitsText(out)) },
		}.command(c),
		row[host.LimitsResetInput, host.CountOutput]{
			use:   "reset TYPE/KEY... [LIMIT...]",
			short: "Make limits of an actor those of its type",
			long: "reset makes limits of an actor those of its type again: the named ones, or all. set --help lists the names.\n\n" +
				"With --json it prints {\"count\"}: how many were set.",
			example: "  cairn limits reset cell/acme\n  cairn limits reset cell/acme storage",
			method:  method.LimitsReset,
			check: func(l line, in *host.LimitsResetInput) error {
				for _, name := range l.args {
					f, err := limitNamed(new(host.ActorLimits), name)
					if err != nil {
						return usageError{err}
					}
					in.Names = append(in.Names, f.Name)
				}
				return nil
			},
			print: counted[host.LimitsResetInput]("reset", "limit"),
		}.command(c))
}

// limitName is what people call a limit: without the unit of those in bytes.
func limitName(f host.ActorLimit) string { return strings.TrimSuffix(f.Name, "_bytes") }

// limitNamed returns the field of l that people, or programs, call name.
func limitNamed(l *host.ActorLimits, name string) (host.ActorLimit, error) {
	fields := l.Fields()
	i := slices.IndexFunc(fields, func(f host.ActorLimit) bool { return f.Name == name || limitName(f) == name })
	if i >= 0 {
		return fields[i], nil
	}
	var names []string
	for _, f := range fields {
		names = append(names, limitName(f))
	}
	return host.ActorLimit{}, fmt.Errorf("there is no limit %q: the limits are %s", name, strings.Join(names, ", "))
}

// parseLimits reads arguments such as storage=2GiB.
func parseLimits(args []string) (l host.ActorLimits, err error) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return l, fmt.Errorf("%q is not LIMIT=VALUE, such as storage=2GiB", arg)
		}
		f, err := limitNamed(&l, name)
		if err != nil {
			return l, err
		}
		switch {
		case f.Rate != nil:
			rate, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return l, fmt.Errorf("%s: %q is not a number", name, value)
			}
			*f.Rate = &rate
		case strings.HasSuffix(f.Name, "_bytes"):
			n, err := host.ParseSize(value)
			if err != nil {
				return l, fmt.Errorf("%s: %w", name, err)
			}
			*f.Whole = &n
		default:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return l, fmt.Errorf("%s: %q is not a whole number", name, value)
			}
			*f.Whole = &n
		}
	}
	return l, nil
}

// limitsText lists limits for people, as set takes them.
func limitsText(l *host.ActorLimits) string {
	var words []string
	for _, f := range l.Fields() {
		switch {
		case f.Rate != nil && *f.Rate != nil:
			words = append(words, fmt.Sprintf("%s=%g", limitName(f), **f.Rate))
		case f.Whole != nil && *f.Whole != nil:
			text := strconv.FormatInt(**f.Whole, 10)
			if n := **f.Whole; strings.HasSuffix(f.Name, "_bytes") {
				for _, u := range []struct {
					name  string
					bytes int64
				}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
					if n%u.bytes == 0 {
						text = strconv.FormatInt(n/u.bytes, 10) + u.name
						break
					}
				}
			}
			words = append(words, limitName(f)+"="+text)
		}
	}
	return strings.Join(words, " ")
}
