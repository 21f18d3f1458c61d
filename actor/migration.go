package actor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of migrations.
const (
	maxMigrations     = 10_000
	maxMigrationName  = 128
	maxMigrationBytes = 1_000_000
)

// A Migration is one step of the schema of an actor type's SQLite databases; see [Spec.Migrations].
type Migration = host.Migration

// ReadMigrations reads migrations from files that match pattern (see [path.Match]), in the order of
// their file names, such as files embedded with go:embed. A migration is named after its file,
// without the folder and ".sql". The error names an unreadable file, or says that none matches.
//
//	//go:embed migrations/*.sql
//	var files embed.FS
//
//	var migrations = actor.MustReadMigrations(files, "migrations/*.sql")
func ReadMigrations(fsys fs.FS, pattern string) ([]Migration, error) {
	names, err := fs.Glob(fsys, pattern)
	if err != nil {
		return nil, fmt.Errorf("actor: migrations %q: %w", pattern, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("actor: no file matches %q: %w", pattern, fs.ErrNotExist)
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := strings.Compare(path.Base(a), path.Base(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	ms := make([]Migration, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("actor: read a migration: %w", err)
		}
		ms[i] = Migration{Name: strings.TrimSuffix(path.Base(name), ".sql"), SQL: string(text)}
	}
	return ms, nil
}

// MustReadMigrations is ReadMigrations for package variables: it panics if there is an error.
func MustReadMigrations(fsys fs.FS, pattern string) []Migration {
	ms, err := ReadMigrations(fsys, pattern)
	if err != nil {
		panic(err)
	}
	return ms
}

// checkMigrations checks the migrations of the spec.
func (d *definer) checkMigrations(ms []Migration) {
	if len(ms) > maxMigrations {
		d.fault("Spec.Migrations", "are %d; a type has at most %d", len(ms), maxMigrations)
		return
	}
	seen := make(map[string]int, len(ms))
	for i, m := range ms {
		at := fmt.Sprintf("Spec.Migrations[%d]", i)
		switch {
		case m.Name == "":
			d.fault(at, "has no name")
		case len(m.Name) > maxMigrationName:
			d.fault(at, "has a name of %d bytes; it has at most %d", len(m.Name), maxMigrationName)
		case !utf8.ValidString(m.Name):
			d.fault(at, "has a name that is not UTF-8")
		}
		if other, ok := seen[m.Name]; ok && m.Name != "" {
			d.fault(at, "has the name %q, as Spec.Migrations[%d] has; names must differ", m.Name, other)
		} else {
			seen[m.Name] = i
		}
		switch {
		case strings.TrimSpace(m.SQL) == "":
			d.fault(at, "(%q) has no SQL", m.Name)
		case len(m.SQL) > maxMigrationBytes:
			d.fault(at, "(%q) has %d bytes of SQL; it has at most %d", m.Name, len(m.SQL), maxMigrationBytes)
		case !utf8.ValidString(m.SQL) || strings.ContainsRune(m.SQL, 0):
			d.fault(at, "(%q) has SQL that is not UTF-8 text", m.Name)
		}
	}
}
