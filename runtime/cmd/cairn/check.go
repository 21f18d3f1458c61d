package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// maxFaults is how many faults check prints.
const maxFaults = 20

func (c *cli) checkCommand() *cobra.Command {
	var dir string
	var rebuild bool
	cmd := &cobra.Command{
		Use:  "check --data DIR",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("check needs --data: the directory of a node that is stopped")
			}
			o, err := runtime.Inspect(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer func() {
				if err := o.Close(); err != nil {
					c.note("closing %s: %s", dir, err)
				}
			}()
			if rebuild {
				n, err := o.RebuildIndex(cmd.Context())
				if err != nil {
					return err
				}
				c.note("the index of %s is built anew", table.Plural(n, "actor"))
			}
			return c.check(cmd, o)
		},
	}
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build the index anew before")
	dataFlag(cmd, &dir)
	return cmd
}

// check compares the index of actors with the rows of the actors.
func (c *cli) check(cmd *cobra.Command, o *runtime.Offline) error {
	faults := 0
	rows, built, err := o.CheckIndex(cmd.Context(), func(row string, missing bool) {
		if faults++; faults > maxFaults {
			return
		}
		what := "surplus"
		if missing {
			what = "missing"
		}
		if c.json {
			// what cannot be printed is counted all the same
			_ = c.printJSON(map[string]string{"fault": what, "row": row})
		} else {
			fmt.Fprintln(c.stdout, what, row)
		}
	})
	switch {
	case err != nil:
		return err
	case !built:
		return fmt.Errorf("the index of actors is not built; --rebuild or the next start of a node builds it")
	case faults > 0:
		return fmt.Errorf("%s of the index of actors missing or surplus; --rebuild builds it anew",
			table.Plural(faults, "row"))
	}
	if c.json {
		return c.printJSON(map[string]int{"rows": rows})
	}
	_, err = fmt.Fprintf(c.stdout, "the index of actors is right: %s\n", table.Plural(rows, "row"))
	return err
}
