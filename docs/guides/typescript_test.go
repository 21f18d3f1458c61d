package guides_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

var (
	Baskets  = actor.NewType[Basket]("basket")
	AddEntry = actor.NewAction[Entry, int](Baskets, "add")
	Entries  = actor.NewQuery[actor.None, []Entry](Baskets, "entries")
	Empty    = actor.NewAction[actor.None, actor.None](Baskets, "empty")
)

type Basket struct{ Entries []Entry }

type Entry struct {
	Article string `json:"article"`
	N       int    `json:"n"`
	Note    string `json:"note,omitempty"`
}

func (b *Basket) add(_ *actor.Context, e Entry) (int, error) {
	if e.N < 1 {
		return 0, actor.Errorf(actor.InvalidArgument, "%d is not positive", e.N)
	}
	b.Entries = append(b.Entries, e)
	return len(b.Entries), nil
}

func (b Basket) entries(*actor.ReadContext, actor.None) ([]Entry, error) { return b.Entries, nil }

func (b *Basket) empty(*actor.Context, actor.None) (actor.None, error) {
	b.Entries = nil
	return actor.None{}, nil
}

func basket() actor.Definition {
	return actor.Define(Baskets, actor.Spec[Basket]{},
		actor.On(AddEntry, (*Basket).add), actor.OnQuery(Entries, Basket.entries), actor.On(Empty, (*Basket).empty))
}

// TestTypeScript generates the types of a running node, compiles the client of the guide and the
// mistakes that must not compile, and runs the client.
func TestTypeScript(t *testing.T) {
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret", Actors: []actor.Definition{basket()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(typescript)); err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(npmPackages(t, typescript), "node_modules")
	if err := os.Symlink(tools, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	url := "http://" + rt.Addr()
	command(t, dir, "curl", "-sSf", "-H", "Authorization: Bearer secret", "-o", "openapi.json", url+"/openapi.json")
	bin := filepath.Join(tools, ".bin")
	command(t, dir, filepath.Join(bin, "openapi-typescript"), "openapi.json", "--output", "node.d.ts")
	command(t, dir, filepath.Join(bin, "tsc"), "--project", ".", "--skipDefaultLibCheck") // TypeScript's own types cost more than the rest
	got := command(t, dir, "node", filepath.Join("out", "main.js"), url, "secret")
	const want = `{"n":2,"articles":["bolt","nut"],"code":"invalid_argument","refused":"unauthenticated",` +
		`"emptied":204,"missing":"not_found"}`
	if strings.TrimSpace(got) != want {
		t.Errorf("the program printed\n%swant\n%s", got, want)
	}
	made, err := Entries.Call(t.Context(), Baskets.Ref(rt, "shop", "ann"), actor.None{})
	if err != nil || len(made) != 0 {
		t.Error(made, err)
	}
}

// typescript has the client, the program that uses it, and the packages of both.
var typescript = filepath.Join("testdata", "typescript")

// npmPackages returns a directory with the packages of a lockfile. It is kept between runs, so that
// only the first needs the registry.
func npmPackages(t *testing.T, of string, options ...string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is missing; `make test` installs it: ", err)
	}
	lock, err := os.ReadFile(filepath.Join(of, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil { // There is no home directory.
		cache = t.TempDir()
	}
	cache = filepath.Join(cache, "cairn-test")
	kept := filepath.Join(cache, fmt.Sprintf("npm-%x", sha256.Sum256(append(lock, strings.Join(options, " ")...))))
	if _, err := os.Stat(kept); err == nil {
		return kept
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(of, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	command(t, fresh, "npm", append([]string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"}, options...)...)
	// Another process may have been faster. The rename fails then, and its packages are as good.
	if err := os.Rename(fresh, kept); err != nil {
		if _, missing := os.Stat(kept); missing != nil {
			t.Fatal(err)
		}
	}
	return kept
}

// command runs a program and returns what it printed.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	var out, problems strings.Builder
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, &out, &problems)
	}
	return out.String()
}

// TestTypeScriptOfTheGuideIsInTheProgram holds the snippets of the guide to the files that are
// compiled.
func TestTypeScriptOfTheGuideIsInTheProgram(t *testing.T) {
	snippets := blocks(t, "typescript.md", "ts")
	if len(snippets) < 3 {
		t.Errorf("only %d snippets were found", len(snippets))
	}
	wantInCode(t, "typescript.md", snippets,
		filepath.Join(typescript, "client.ts"), filepath.Join(typescript, "main.ts"), filepath.Join(typescript, "refused.ts"))
}
