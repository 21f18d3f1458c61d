package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// batchBytes is the approximate size of one request: half of a node's default limit.
const batchBytes = 512 << 10

// batches reads JSON documents from standard input, one a line, and calls f with up to most of
// them, or about batchBytes. Empty lines are skipped.
func (c *cli) batches(most int, f func([]host.Raw) error) error {
	lines := file.NewLines(c.stdin)
	var batch []host.Raw
	bytes, handed := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := f(batch); err != nil {
			return fmt.Errorf("after %s: %w", table.Plural(handed, "line"), err)
		}
		handed += len(batch)
		batch, bytes = nil, 0
		return nil
	}
	for n := 1; ; n++ {
		line, err := lines.Next()
		switch {
		case errors.Is(err, file.ErrNoMore):
			return flush()
		case err != nil:
			return fmt.Errorf("standard input, after %s: %w", table.Plural(handed, "line"), err)
		case len(line) == 0:
			continue
		case !json.Valid(line):
			return fmt.Errorf("line %d of standard input is not JSON; %s before it went out", n,
				table.Plural(handed, "line"))
		}
		if len(batch) == most || bytes+len(line) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, bytes = append(batch, line), bytes+len(line)
	}
}
