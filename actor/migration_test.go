package actor_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cairn-run/cairn/actor"
)

func TestMigrationsAreReadInTheOrderOfTheirFiles(t *testing.T) {
	files := fstest.MapFS{
		"schema/0002_tags.sql":  {Data: []byte("CREATE TABLE tag (x)")},
		"schema/0010_late.sql":  {Data: []byte("CREATE TABLE late (x)")},
		"schema/0001_notes.sql": {Data: []byte("CREATE TABLE note (x)")},
		"schema/README":         {Data: []byte("no migration")},
		"other/0003.sql":        {Data: []byte("CREATE TABLE other (x)")},
	}
	ms, err := actor.ReadMigrations(files, "*/*.sql")
	check(t, err)
	errorIf(t, !slices.Equal(ms, []actor.Migration{
		{Name: "0001_notes", SQL: "CREATE TABLE note (x)"}, {Name: "0002_tags", SQL: "CREATE TABLE tag (x)"},
		{Name: "0003", SQL: "CREATE TABLE other (x)"}, {Name: "0010_late", SQL: "CREATE TABLE late (x)"},
	}), "%q", ms)
	_, err = actor.ReadMigrations(files, "nowhere/*.sql")
	errorIf(t, !errors.Is(err, fs.ErrNotExist), "no file: %v", err)
	_, err = actor.ReadMigrations(files, "[.sql")
	errorIf(t, err == nil, "a wrong pattern is accepted")
	defer func() { errorIf(t, recover() == nil, "MustReadMigrations did not panic") }()
	actor.MustReadMigrations(files, "nowhere/*.sql")
}

func TestFaultsOfMigrations(t *testing.T) {
	type empty struct{}
	define := func(ms []actor.Migration) actor.Definition {
		return actor.Define(actor.NewType[empty]("migrated"), actor.Spec[empty]{Migrations: ms, OpenSQL: true})
	}
	for want, ms := range map[string][]actor.Migration{
		"Spec.Migrations[0]: has no name": {{SQL: "SELECT 1"}},
		"at most 128":                     {{Name: strings.Repeat("x", 129), SQL: "SELECT 1"}},
		`Spec.Migrations[1]: has the name "1", as Spec.Migrations[0] has`: {{Name: "1", SQL: "SELECT 1"}, {Name: "1", SQL: "SELECT 2"}},
		"has no SQL":                      {{Name: "1", SQL: " \n"}},
		"at most 1000000":                 {{Name: "1", SQL: strings.Repeat(" ", 1_000_000) + "x"}},
		"SQL that is not UTF-8":           {{Name: "1", SQL: "SELECT '\xff'"}},
		`("1") has SQL that is not UTF-8`: {{Name: "1", SQL: "SELECT '\x00'"}},
	} {
		err := define(ms).Validate()
		errorIf(t, err == nil || !strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
	ms := []actor.Migration{{Name: "1", SQL: "SELECT 1"}, {Name: "2", SQL: "SELECT 1"}}
	d := define(ms)
	check(t, d.Validate())
	ms[0].Name = "changed later"
	b := d.Behavior()
	errorIf(t, len(b.Migrations) != 2 || b.Migrations[0].Name != "1" || !b.OpenSQL, "%+v", b)
}
