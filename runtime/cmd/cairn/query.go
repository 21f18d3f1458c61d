package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/shell"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) queryCommand() *cobra.Command {
	var in host.QueryManyInput
	var prefix, dir string
	var args []string
	cmd := &cobra.Command{
		Use: "query TYPE SQL",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("name a TYPE, and the statement in quotes")
			}
			return nil
		},
		ValidArgsFunction: c.completeType,
		RunE: func(cmd *cobra.Command, named []string) (err error) {
			if in.Type, in.SQL = named[0], named[1]; prefix != "" {
				if in.Prefix, err = parsePrefix(prefix); err != nil {
					return err
				}
			}
			if err := checkType(in.Type); err != nil {
				return usageError{err}
			}
			if in.Limit < 1 || in.Limit > shell.MaxRows {
				return usagef("--limit %d: 1 to %s", in.Limit, table.Count(shell.MaxRows))
			}
			for _, arg := range args {
				v, err := sqlArg(arg)
				if err != nil {
					return err
				}
				raw, err := json.Marshal(v)
				if err != nil {
					return err
				}
				in.Args = append(in.Args, raw)
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			return c.query(cmd.Context(), n, &in)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&prefix, "prefix", "", "only keys that begin with these whole parts, PART/PART")
	whereFlag(flags, &in.Where)
	flags.StringVar(&in.Sort, "sort", "",
		"order of the actors: key, state, size, updated or an attribute; -size is from the largest")
	flags.StringArrayVar(&args, "arg", nil,
		"value of ?1, then ?2 and so on: JSON, or text if it is not that; bytes are {\"base64\":...}")
	flags.IntVar(&in.Limit, "limit", 1000, "how many rows to print at most, 1 to 10,000")
	dataFlag(cmd, &dir)
	return cmd
}

// query prints the rows of all selected actors, up to the limit, answer by answer.
func (c *cli) query(ctx context.Context, n reader, in *host.QueryManyInput) error {
	t := c.table()
	left, printed, read, failed := in.Limit, 0, 0, 0
	var last string // the header
	for {
		in.Limit = left - printed
		limited, cancel := c.requestContext(ctx)
		out, err := n.QueryMany(limited, in)
		cancel()
		if err != nil {
			t.Flush()
			return c.explain(ctx, n, host.Request{Address: host.Address{Type: in.Type}}, err)
		}
		read += out.Read
		for _, a := range out.Actors {
			columns := a.Columns
			if columns == nil {
				columns = out.Columns
			}
			name := formatAddress(in.Type, a.Key)
			if a.Error != nil {
				failed++
				c.note("%s: %s", name, table.OneLine(a.Error.Error()))
			}
			for _, row := range a.Rows {
				printed++
				if err := c.printQueried(t, a.Key, name, columns, row, &last); err != nil {
					return err
				}
			}
		}
		t.Flush()
		if in.Cursor = out.Cursor; in.Cursor == "" || printed >= left {
			break
		}
	}
	if !c.json {
		more := ""
		if in.Cursor != "" {
			more = "; there are more actors: --limit N reads more rows"
		}
		c.note("%s of %s%s", table.Plural(printed, "row"), table.Plural(read, "database"), more)
	}
	if failed > 0 {
		return errors.New(table.Plural(failed, "database") + " could not be read")
	}
	return nil
}

// printQueried prints a row, and the columns before it if they are not those of the row before.
func (c *cli) printQueried(t table.Table, key []string, name string, columns []host.SQLColumn,
	row []any, last *string) error {
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Name
	}
	if c.json {
		return c.printJSON(struct {
			Key     []string `json:"key"`
			Columns []string `json:"columns"`
			Row     []any    `json:"row"`
		}{key, names, row})
	}
	if header := strings.Join(names, "\t"); header != *last {
		*last = header
		t.Row(append([]string{"ACTOR"}, names...)...)
	}
	cells := []string{name}
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			cells = append(cells, "")
		case string:
			cells = append(cells, table.OneLine(v))
		case map[string]any:
			cells = append(cells, fmt.Sprint(v["base64"]))
		default:
			cells = append(cells, fmt.Sprint(v))
		}
	}
	t.Row(cells...)
	return nil
}
