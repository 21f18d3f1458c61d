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
	return group("limits",
		row[host.ActorLimits, host.ActorLimits]{
			use:    "set TYPE/KEY... LIMIT=VALUE...",
			method: method.LimitsSet,
			check: func(l line, in *host.ActorLimits) (err error) {
				if *in, err = parseLimits(l.args); err != nil {
					return usageError{err}
				}
				return nil
			},
			print: func(t *target, _, out *host.ActorLimits) error { return t.result(out, "%s\n", limitsText(out)) },
		}.command(c),
		row[host.LimitsResetInput, host.CountOutput]{
			use:    "reset TYPE/KEY... [LIMIT...]",
			method: method.LimitsReset,
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
