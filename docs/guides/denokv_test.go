package guides_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

var (
	Workshops = actor.NewType[Workshop]("workshop")
	Jobs      = actor.NewQueue[Job](Workshops, "kv", actor.QueueConfig{})
	Finished  = actor.NewQuery[actor.None, []int](Workshops, "done")
)

type Workshop struct{ Finished []int }

type Job struct {
	Job int `json:"job"`
}

func (w *Workshop) work(_ *actor.Context, j Job) error {
	w.Finished = append(w.Finished, j.Job)
	return nil
}

func (w Workshop) done(*actor.ReadContext, actor.None) ([]int, error) { return w.Finished, nil }

func workshop() actor.Definition {
	return actor.Define(Workshops, actor.Spec[Workshop]{OpenKV: true},
		actor.OnMessage(Jobs, (*Workshop).work), actor.OnQuery(Finished, Workshop.done))
}

// denoKV has the programs of the guide, and the packages that they use.
var denoKV = filepath.Join("testdata", "denokv")

// A denoKVClient runs a program of the guide.
type denoKVClient func(program string, args ...string) string

// denoKVNode starts a node, and copies the programs beside their packages. The examples name its
// port.
func denoKVNode(t *testing.T, npm ...string) (rt *runtime.Runtime, dir string) {
	t.Helper()
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "0123456789ab", Actors: []actor.Definition{cell.Definition(), workshop()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	packages := filepath.Join(npmPackages(t, denoKV, npm...), "node_modules")
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(denoKV)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"example.mjs", "example.ts"} {
		name = filepath.Join(dir, name)
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.ReplaceAll(string(text), "127.0.0.1:6420", rt.Addr())), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DENO_KV_ACCESS_TOKEN", "0123456789ab")
	return rt, dir
}

// compare puts entries into a cell in another way, and runs the program that prints what it finds.
func compare(t *testing.T, rt *runtime.Runtime, dir, name string, run denoKVClient) {
	t.Helper()
	_, err := cell.Type.Ref(rt, name).KV().Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{
		kv.Put(kv.Key{"native", int64(1)}, kv.JSON([]byte(`{"name":"Ada","n":1.5}`))),
		kv.Put(kv.Key{"native", "a big one"}, kv.JSON([]byte(`9007199254740993`))),
		kv.Put(kv.Key{"native", "bytes"}, kv.Bytes([]byte{0, 255})),
		kv.Put(kv.Key{"native", "integer"}, kv.JSON([]byte(`7`))),
		kv.Put(kv.Key{"native", "text"}, kv.Text("é")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := run("main.mjs", "http://"+rt.Addr()+"/kv/"+name)
	text, err := os.ReadFile(filepath.Join(dir, "want.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(text) {
		t.Errorf("the program printed\n%swant\n%s", got, text)
	}
}

// TestDenoKVOfNode runs the client of npm against a node.
func TestDenoKVOfNode(t *testing.T) {
	rt, dir := denoKVNode(t, "--omit=dev", "--omit=optional")
	run := func(program string, args ...string) string {
		return command(t, dir, "node", append([]string{program}, args...)...)
	}
	compare(t, rt, dir, "node", run)
	if got := run("example.mjs"); got != "12345678901234567890n\n" {
		t.Errorf("the example printed %q", got)
	}
	w := Workshops.Ref(rt, "a")
	if got := run("enqueue.mjs", "http://"+rt.Addr()+"/actors/workshop/a/-/kv"); got != "true\n" {
		t.Errorf("the program printed %q", got)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		done, err := Finished.Call(t.Context(), w, actor.None{})
		if err != nil || time.Now().After(deadline) {
			t.Fatal(done, err)
		}
		if len(done) == 2 {
			break
		}
	}
	if got := run("enqueue.mjs", "http://"+rt.Addr()+"/actors/cell/a/-/kv"); got != "true\n" {
		t.Errorf("for a cell the program printed %q", got)
	}
	for _, want := range []string{`{"job":1}`, `{"job":2}`} {
		got, err := cell.Queues.Named("kv").Of(cell.Type.Ref(rt, "a")).Receive(t.Context(), handle.ReceiveConfig{Wait: time.Minute})
		if err != nil || len(got) != 1 || string(got[0].Body) != want {
			t.Fatalf("a cell received %v, %v, not %s", got, err, want)
		}
		if err := got[0].Ack(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestDenoKVOfDeno runs Deno itself against a node; `make test-denokv` installs it.
func TestDenoKVOfDeno(t *testing.T) {
	if os.Getenv("CAIRN_DENO") == "" {
		t.Skip("Deno is large: `make test-denokv` runs this")
	}
	rt, dir := denoKVNode(t)
	binary, err := filepath.Glob(filepath.Join(dir, "node_modules", "@deno", "*-*", "deno"))
	if err != nil || len(binary) == 0 {
		t.Fatal("Deno is not installed: ", err)
	}
	run := func(program string, args ...string) string {
		return command(t, dir, binary[0], append([]string{"run", "--unstable-kv", "--no-lock", "--allow-net", "--allow-env", program}, args...)...)
	}
	compare(t, rt, dir, "deno", run)
	if got := command(t, dir, "node", "example.mjs"); got != "12345678901234567890n\n" {
		t.Errorf("the example printed %q", got)
	}
	if got := run("example.ts"); got != "true\n" {
		t.Errorf("the example printed %q", got)
	}
}

func TestProgramsOfTheGuideToDenoKVRun(t *testing.T) {
	for language, file := range map[string]string{"js": "example.mjs", "ts": "example.ts"} {
		snippets := blocks(t, "denokv.md", language)
		if len(snippets) == 0 {
			t.Errorf("there is no snippet in %s", language)
		}
		wantInCode(t, "denokv.md", snippets, filepath.Join(denoKV, file))
	}
}
