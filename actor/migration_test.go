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
	ms, err := actor.ReadMigrations(files, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	want := []actor.Migration{
		{Name: "0001_notes", SQL: "CREATE TABLE note (x)"}, {Name: "0002_tags", SQL: "CREATE TABLE tag (x)"}, {Name: "0010_late", SQL: "CREATE TABLE late (x)"},
	}
	if !slices.Equal(ms, want) {
		t.Errorf("%q", ms)
	}
	if ms, err = actor.ReadMigrations(files, "*/*.sql"); err != nil || ms[2].Name != "0003" {
		t.Errorf("of two folders: %q, %v", ms, err)
	}
	if _, err := actor.ReadMigrations(files, "nowhere/*.sql"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := actor.ReadMigrations(files, "[.sql"); err == nil {
		t.Error("a wrong pattern is accepted")
	}
	defer func() {
		if recover() == nil {
			t.Error("MustReadMigrations did not panic")
		}
	}()
	actor.MustReadMigrations(files, "nowhere/*.sql")
}

func TestFaultsOfMigrations(t *testing.T) {
	type empty struct{}
	for _, c := range []struct {
		name string
		ms   []actor.Migration
		want string // "" if there is nothing wrong
	}{
		{"none", nil, ""},
		{"two", []actor.Migration{{Name: "1", SQL: "SELECT 1"}, {Name: "2", SQL: "SELECT 1"}}, ""},
		{"no name", []actor.Migration{{SQL: "SELECT 1"}}, "Spec.Migrations[0]: has no name"},
		{"a long name", []actor.Migration{{Name: strings.Repeat("x", 129), SQL: "SELECT 1"}}, "at most 128"},
		{"twice", []actor.Migration{{Name: "1", SQL: "SELECT 1"}, {Name: "1", SQL: "SELECT 2"}}, `Spec.Migrations[1]: has the name "1", as Spec.Migrations[0] has`},
		{"no SQL", []actor.Migration{{Name: "1", SQL: " \n"}}, "has no SQL"},
		{"long SQL", []actor.Migration{{Name: "1", SQL: strings.Repeat(" ", 1_000_000) + "x"}}, "at most 1000000"},
		{"no text", []actor.Migration{{Name: "1", SQL: "SELECT '\xff'"}}, "not UTF-8"},
		{"a zero", []actor.Migration{{Name: "1", SQL: "SELECT '\x00'"}}, "not UTF-8"},
	} {
		typ := actor.NewType[empty]("migrated")
		err := actor.Define(typ, actor.Spec[empty]{Migrations: c.ms, OpenSQL: true}).Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	typ := actor.NewType[empty]("migrated")
	ms := []actor.Migration{{Name: "1", SQL: "SELECT 1"}}
	b := actor.Define(typ, actor.Spec[empty]{Migrations: ms, OpenSQL: true}).Behavior()
	ms[0].Name = "changed later"
	if len(b.Migrations) != 1 || b.Migrations[0].Name != "1" || !b.OpenSQL {
		t.Errorf("%+v", b)
	}
}
