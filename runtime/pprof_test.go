package runtime_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

func TestProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for address, fault := range map[string]string{
		"127.0.0.1:0":     "",
		"127.8.0.1:6060":  "",
		"[::1]:6060":      "",
		"localhost:6060":  "",
		":6060":           "other machines",
		"0.0.0.0:6060":    "other machines",
		"[::]:6060":       "other machines",
		"10.0.0.7:6060":   "other machines",
		"[fe80::1]:6060":  "other machines",
		"node.example:80": "other machines",
		"127.0.0.1":       "missing port",
		"::1":             "too many colons",
	} {
		for _, token := range []string{"", "secret"} {
			o := runtime.Options{
				Dir: "data", Token: token, PprofListen: address,
				Authorize: func(context.Context, runtime.AuthRequest) error { return nil },
			}
			err := o.Validate()
			switch {
			case fault == "" && err != nil:
				t.Errorf("%s: %v", address, err)
			case fault != "" && (err == nil || !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), "Options.PprofListen")):
				t.Errorf("%s with token %q: error %v, want one about %q that names the field", address, token, err, fault)
			}
		}
	}
}

// blocker is an actor type whose handlers wait until they are released.
type blocker struct {
	definition actor.Definition
	begun      chan struct{}
	release    chan struct{}
}

func newBlocker() *blocker {
	b := &blocker{begun: make(chan struct{}, 8), release: make(chan struct{})}
	block := func() { b.begun <- struct{}{}; <-b.release }
	typ := actor.NewType[actor.None]("blocker")
	act := actor.NewAction[string, actor.None](typ, "act")
	spawn := actor.NewAction[string, actor.None](typ, "spawn")
	look := actor.NewQuery[string, actor.None](typ, "look")
	b.definition = actor.Define(typ, actor.Spec[actor.None]{},
		actor.On(act, func(*actor.None, *actor.Context, string) (actor.None, error) { block(); return actor.None{}, nil }),
		actor.On(spawn, func(_ *actor.None, ctx *actor.Context, name string) (actor.None, error) {
			return actor.None{}, ctx.Go(name, func(*actor.Task) error { block(); return nil })
		}),
		actor.OnQuery(look, func(actor.None, *actor.ReadContext, string) (actor.None, error) { block(); return actor.None{}, nil }))
	return b
}

func openProfiled(t *testing.T, b *blocker, listen string) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: "data", Disk: engine.NewDisk(), Actors: []actor.Definition{b.definition}, Logger: slog.New(slog.DiscardHandler), PprofListen: listen,
	})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func call(t *testing.T, rt *runtime.Runtime, key, method, input string) {
	_, err := rt.Call(t.Context(), &host.Request{
		Address: host.Address{Type: "blocker", Key: []string{key}}, Method: method, Codec: host.JSON, Input: []byte(`"` + input + `"`),
	})
	if err != nil {
		t.Errorf("%s: %v", method, err)
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestProfilesShowTheTypeAndTheWorkOfAGoroutine(t *testing.T) {
	b := newBlocker()
	rt := openProfiled(t, b, "127.0.0.1:0")
	defer rt.Close()
	base := "http://" + rt.PprofAddr() + "/debug/pprof/"
	if status, body := fetch(t, base); status != http.StatusOK || !strings.Contains(body, "goroutine") {
		t.Errorf("the index is %d %s", status, body)
	}
	for _, name := range []string{"heap", "cmdline", "symbol", "allocs?debug=1", "trace?seconds=0.1"} {
		if status, body := fetch(t, base+name); status != http.StatusOK {
			t.Errorf("%s is %d %s", name, status, body)
		}
	}
	if status, _ := fetch(t, "http://"+rt.PprofAddr()+"/metrics"); status != http.StatusNotFound {
		t.Errorf("a path that is no profile is %d", status)
	}

	call(t, rt, "tasks", "spawn", "unique-task-4711")
	done := make(chan struct{}, 2)
	go func() { call(t, rt, "secret-key", "act", ""); done <- struct{}{} }()
	call(t, rt, "looked-at", "spawn", "other")
	go func() { call(t, rt, "looked-at", "look", ""); done <- struct{}{} }()
	for range 4 {
		<-b.begun
	}
	_, body := fetch(t, base+"goroutine?debug=1")
	for _, want := range []string{
		`{"actor_type":"blocker", "name":"act", "work":"call"}`,
		`{"actor_type":"blocker", "name":"look", "work":"query"}`,
		`{"actor_type":"blocker", "work":"task"}`,
	} {
		if !strings.Contains(body, "# labels: "+want) {
			t.Errorf("no goroutine has the labels %s", want)
		}
	}
	close(b.release)
	<-done
	<-done
	for line := range strings.Lines(body) {
		if strings.Contains(line, "labels") && (strings.Contains(line, "secret-key") || strings.Contains(line, "4711")) {
			t.Errorf("a label has a name of run time: %s", line)
		}
	}

	// A worker or a goroutine of queries that is free has no labels.
	waitForGoroutines(t, rt, func(text string) bool { return !strings.Contains(text, `"actor_type"`) })
}

// waitForGoroutines waits until the profile of goroutines is as wanted.
func waitForGoroutines(t *testing.T, rt *runtime.Runtime, wanted func(text string) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, body := fetch(t, "http://"+rt.PprofAddr()+"/debug/pprof/goroutine?debug=1")
		if wanted(body) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the goroutines are still:\n%s", body)
		}
	}
}

// A page whose own host name resolves to 127.0.0.1 must not read profiles.
func TestProfilesRefuseForeignHostNames(t *testing.T) {
	rt := openProfiled(t, newBlocker(), "127.0.0.1:0")
	defer rt.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+rt.PprofAddr()+"/debug/pprof/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403", response.StatusCode)
	}
}

func TestCloseEndsTheServerOfProfiles(t *testing.T) {
	rt := openProfiled(t, newBlocker(), "127.0.0.1:0")
	addr := rt.PprofAddr()
	ended := make(chan error, 1)
	go func() { // a profile that is being taken does not hold Close up
		r, err := http.Get("http://" + addr + "/debug/pprof/profile?seconds=300")
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		ended <- err
	}()
	waitForGoroutines(t, rt, func(text string) bool { return strings.Contains(text, "net/http/pprof.Profile") })
	begun := time.Now()
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	<-ended
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		c.Close()
		t.Errorf("%s still listens", addr)
	}
}

func TestWithoutAnAddressThereAreNoProfilesAndNoLabels(t *testing.T) {
	b := newBlocker()
	rt := openProfiled(t, b, "")
	defer rt.Close()
	if addr := rt.PprofAddr(); addr != "" {
		t.Errorf("profiles are served on %s", addr)
	}
	other := openProfiled(t, newBlocker(), "127.0.0.1:0") // it sees the goroutines of the whole process
	defer other.Close()
	done := make(chan struct{})
	go func() { call(t, rt, "a", "act", ""); close(done) }()
	<-b.begun
	if _, body := fetch(t, "http://"+other.PprofAddr()+"/debug/pprof/goroutine?debug=1"); strings.Contains(body, `"actor_type"`) {
		t.Error("goroutines have labels")
	}
	close(b.release)
	<-done
}

func TestAnAddressOfProfilesInUseIsAClearError(t *testing.T) {
	first := openProfiled(t, newBlocker(), "127.0.0.1:0")
	defer first.Close()
	_, err := runtime.Open(t.Context(), runtime.Options{Dir: "data", Disk: engine.NewDisk(), Logger: slog.New(slog.DiscardHandler), PprofListen: first.PprofAddr()})
	if err == nil || !strings.Contains(err.Error(), "--pprof-listen") {
		t.Errorf("error %v", err)
	}
}

func TestTheProgramTakesTheAddressOfProfiles(t *testing.T) {
	p := runtime.Program{Name: "node", Actors: []actor.Definition{newBlocker().definition}}
	err := p.Run(t.Context(), []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--pprof-listen", ":6060"}, io.Discard, io.Discard)
	if !errors.Is(err, runtime.ErrUsage) || !strings.Contains(err.Error(), "--pprof-listen") {
		t.Errorf("error %v", err)
	}
	var log strings.Builder
	p.Started = func(_ context.Context, rt *runtime.Runtime) error {
		if rt.PprofAddr() == "" {
			t.Error("no profiles are served")
		}
		return runtime.ErrStop
	}
	if err := p.Run(t.Context(), []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--pprof-listen", "127.0.0.1:0"}, io.Discard, &log); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "pprof=http://127.0.0.1:") {
		t.Errorf("the log does not name the address: %s", log.String())
	}
}
