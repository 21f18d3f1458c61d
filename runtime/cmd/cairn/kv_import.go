package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	"github.com/cairn-run/cairn/runtime/internal/kvfile"
	"github.com/cairn-run/cairn/runtime/internal/sqlitefile"
)

// The bounds of one commit of an import.
const (
	sliceEntries = 1_000
	sliceBytes   = 1 << 20
)

// maxInstance bounds the file of an instance of Codebolt.
const maxInstance = 1 << 20

// databases are the tables that --from names.
var databases = map[string]func(context.Context, *sql.DB) iter.Seq2[kvfile.Item, error]{
	"sqlite": kvfile.Database, "codebolt": kvfile.Codebolt, "go-store": kvfile.GoStore,
}

func (c *cli) kvImportCommand() *cobra.Command {
	var from string
	first := 1
	cmd := &cobra.Command{
		Use:               "import TYPE/KEY... FILE...",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case from != "" && databases[from] == nil:
				return usagef("--from %q: sqlite, codebolt or go-store", from)
			case from != "" && cmd.Flags().Changed("from-line"):
				return usagef("--from-line is for lines; import a database again as a whole")
			case from == "" && len(args) > 2:
				return usagef("lines are imported from one file at a time")
			case first < 1:
				return usagef("--from-line %d: at least 1", first)
			}
			for _, name := range args[1:] {
				if name == "-" && from != "" {
					return usagef("a database is a file, not standard input")
				}
			}
			return c.on(func(ctx context.Context, t *target, names []string) error {
				return t.importEntries(ctx, from, names, first)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&from, "from", "",
		"what the files are, if not lines of JSON: sqlite, as export --sqlite writes it, codebolt or go-store")
	cmd.Flags().IntVar(&first, "from-line", 1, "go on with this line")
	return cmd
}

// importEntries imports files.
func (t *target) importEntries(ctx context.Context, from string, names []string, first int) error {
	im := &importing{target: t, now: time.Now}
	im.done.Line = first - 1
	if from == "" {
		in := t.c.stdin
		if names[0] != "-" {
			f, err := os.Open(names[0])
			if err != nil {
				return usageError{err}
			}
			defer f.Close()
			in = f
		}
		if err := im.run(ctx, lines(in, first)); err != nil {
			return hintedError{err,
				[]string{fmt.Sprintf("%s of the file are imported; to go on: --from-line %d",
					table.Plural(im.done.Line, "line"), im.done.Line+1)}}
		}
	}
	for _, name := range names {
		if from == "" {
			break
		}
		if err := im.file(ctx, from, name); err != nil {
			return hintedError{err,
				[]string{fmt.Sprintf("%s are imported; importing them again changes nothing",
					table.Plural(im.done.Imported, "entry"))}}
		}
	}
	if t.c.json {
		return nil // each slice is printed
	}
	expired := ""
	if im.done.Expired > 0 {
		expired = fmt.Sprintf("; left out %s that had expired", table.Plural(im.done.Expired, "entry"))
	}
	_, err := fmt.Fprintf(t.c.stdout, "imported %s into %s%s\n", table.Plural(im.done.Imported, "entry"), t, expired)
	return err
}

// lines ranges over the entries of lines, from a line on.
func lines(in io.Reader, first int) iter.Seq2[kvfile.Item, error] {
	return func(yield func(kvfile.Item, error) bool) {
		all := file.NewLines(in)
		for n := 1; ; n++ {
			text, err := all.Raw()
			if errors.Is(err, file.ErrNoMore) {
				return
			}
			text = bytes.TrimSpace(text)
			if err == nil && (n < first || len(text) == 0) {
				continue
			}
			item := kvfile.Item{At: "line " + strconv.Itoa(n), Line: n}
			if err != nil {
				err = fmt.Errorf("%s: %w", item.At, err)
			} else if item.Entry, err = kvfile.ParseLine(text); err != nil {
				err = kvfile.Located(item.At, err)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// An importing puts entries in slices; each slice is a commit.
type importing struct {
	*target
	now   func() time.Time
	slice []kv.Mutation
	at    []string // of slice
	bytes int
	// next is done after the slice.
	next, done struct {
		Imported int64 `json:"imported"`
		Expired  int64 `json:"expired"`
		// Line is the last line that is imported; absent for databases.
		Line int `json:"line,omitempty"`
	}
}

// run imports entries. After an error nothing of the slice is written.
func (im *importing) run(ctx context.Context, items iter.Seq2[kvfile.Item, error]) error {
	im.next = im.done
	for item, err := range items {
		if err != nil {
			return err
		}
		size := len(item.Value.Data)
		for _, part := range item.Key {
			switch part := part.(type) {
			case string:
				size += len(part)
			case []byte:
				size += len(part)
			}
		}
		if len(im.slice) == sliceEntries || len(im.slice) > 0 && im.bytes+size > sliceBytes {
			if err := im.commit(ctx); err != nil {
				return err
			}
		}
		im.next.Line = item.Line
		m := kv.Put(item.Key, item.Value).For(0) // whatever the default of the scope
		if !item.Expires.IsZero() {
			left := item.Expires.Sub(im.now())
			if left <= 0 {
				im.next.Expired++
				continue
			}
			if longest := hostkv.MaxTTL * time.Millisecond; left < longest-time.Hour { // clocks differ
				m = m.Until(item.Expires)
			} else {
				m = m.For(longest)
			}
		}
		im.next.Imported++
		im.slice, im.at, im.bytes = append(im.slice, m), append(im.at, item.At), im.bytes+size
	}
	return im.commit(ctx)
}

// commit writes the slice.
func (im *importing) commit(ctx context.Context) error {
	if len(im.slice) > 0 {
		limited, cancel := im.c.requestContext(ctx)
		_, err := im.store().Commit(limited, kv.Commit{Mutations: im.slice})
		cancel()
		if err != nil {
			return im.explain(ctx, err)
		}
	}
	im.slice, im.at, im.bytes, im.done = im.slice[:0], im.at[:0], 0, im.next
	if im.c.json {
		return im.c.printJSON(im.done)
	}
	return nil
}

// explain names the place of the entry that an error of a commit is about.
func (im *importing) explain(ctx context.Context, err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return err
	}
	field := e.Metadata["field"]
	if field == "" { // such as of a quota
		field, _, _ = strings.Cut(e.Message, ": ")
	}
	place, within := strings.CutPrefix(field, "mutations[")
	index, rest, _ := strings.Cut(place, "]")
	i, numberErr := strconv.Atoi(index)
	if !within || numberErr != nil || i < 0 || i >= len(im.at) {
		return im.c.explain(ctx, im.node(), host.Request{Address: im.a}, err)
	}
	there := *e
	if e.Metadata["field"] != "" {
		there = *e.With("field", strings.TrimPrefix(rest, "."))
	}
	there.Message = im.at[i] + ": " + strings.TrimPrefix(e.Message, field+": ")
	return &there
}

// file imports a file of another form than lines.
func (im *importing) file(ctx context.Context, from, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if from == "codebolt" {
		head := make([]byte, 1)
		if n, _ := io.ReadFull(f, head); n == 1 && head[0] != 'S' { // SQLite format 3
			return im.instance(ctx, name, io.MultiReader(bytes.NewReader(head), f))
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	if err := wholeDatabase(name); err != nil {
		return err
	}
	database, err := sqlitefile.New()
	if err != nil {
		return err
	}
	defer func() {
		if err := database.Close(); err != nil {
			im.c.note("closing a temporary file: %s", err)
		}
	}()
	if err := database.Load(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return database.View(ctx, func(db *sql.DB) error { return im.run(ctx, inFile(name, databases[from](ctx, db))) })
}

// inFile adds the name of a file to the places of its entries.
func inFile(name string, items iter.Seq2[kvfile.Item, error]) iter.Seq2[kvfile.Item, error] {
	return func(yield func(kvfile.Item, error) bool) {
		for item, err := range items {
			if err != nil {
				err = kvfile.Located(name, err)
			}
			item.At = name + ", " + item.At
			if !yield(item, err) {
				return
			}
		}
	}
}

// instance imports the file of an instance of Codebolt.
func (im *importing) instance(ctx context.Context, name string, in io.Reader) error {
	document, err := io.ReadAll(io.LimitReader(in, maxInstance+1))
	if err != nil {
		return err
	}
	if len(document) > maxInstance {
		return fmt.Errorf("%s is neither a database nor the file of an instance: it has more than %s", name, table.Size(maxInstance))
	}
	entries, err := kvfile.CodeboltInstance(document)
	if err != nil {
		return kvfile.Located(name, err)
	}
	return im.run(ctx, func(yield func(kvfile.Item, error) bool) {
		for _, e := range entries {
			if !yield(kvfile.Item{Entry: e, At: name}, nil) {
				return
			}
		}
	})
}
