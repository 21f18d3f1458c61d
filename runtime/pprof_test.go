package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	gort "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// Scenarios of the command have the addresses that are refused.
func TestProfilesAreServedOnLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "127.8.0.1:6060", "[::1]:6060", "localhost:6060"} {
		o := runtime.Options{Dir: "data", PprofListen: address}
		err := o.Validate()
		errorIf(t, err != nil, "%s: %v", address, err)
	}
}

const goroutines = "/debug/pprof/goroutine?debug=1"

func openProfiled(t *testing.T, listen string) *runtime.Runtime {
	t.Helper()
	return newNode().open(t, func(o *runtime.Options) { o.PprofListen = listen })
}

// fetch reads a page of the profiles. The host name is that of the address, or another one.
func fetch(t *testing.T, rt *runtime.Runtime, path, host string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+rt.PprofAddr()+path, nil)
	must(t, err)
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

func TestProfilesShowTheTypeAndTheWorkOfAGoroutine(t *testing.T) {
	rt, silent := openProfiled(t, "127.0.0.1:0"), openProfiled(t, "")
	defer rt.Close()
	defer silent.Close()
	for _, c := range []struct {
		path, host string
		want       int
		text       string
	}{
		{"/debug/pprof/", "", http.StatusOK, "goroutine"},
		{"/debug/pprof/heap", "", http.StatusOK, ""},
		{"/debug/pprof/cmdline", "", http.StatusOK, ""},
		{"/debug/pprof/symbol", "", http.StatusOK, ""},
		{"/debug/pprof/allocs?debug=1", "", http.StatusOK, ""},
		{"/debug/pprof/trace?seconds=0.1", "", http.StatusOK, ""},
		{"/metrics", "", http.StatusNotFound, ""},
		{"/debug/pprof/", "evil.example", http.StatusForbidden, ""}, // a page whose own host name resolves to 127.0.0.1 must not read profiles
	} {
		status, body := fetch(t, rt, c.path, c.host)
		errorIf(t, status != c.want || !strings.Contains(body, c.text), "%s of %q is %d %s", c.path, c.host, status, body)
	}
	begun, release := make(chan struct{}), make(chan struct{})
	hold := func() { begun <- struct{}{}; <-release }
	act := action(func(*bot, *actor.Context) (string, error) { hold(); return "", nil })
	look := query(func(bot, *actor.ReadContext) (string, error) { hold(); return "", nil })
	spawn := action(func(_ *bot, ctx *actor.Context) (string, error) {
		return "", ctx.Go("unique-task-4711", func(*actor.Task) error { hold(); return nil })
	})
	var calls sync.WaitGroup
	// Without an address there are no profiles and no labels. The profiles show the goroutines of the whole process.
	errorIf(t, silent.PprofAddr() != "", "profiles are served on %s", silent.PprofAddr())
	calls.Go(func() { mustDo(t, silent, "a", act) })
	<-begun
	_, body := fetch(t, rt, goroutines, "")
	errorIf(t, strings.Contains(body, `"actor_type"`), "goroutines have labels")

	calls.Go(func() { mustDo(t, rt, "secret-key", act) })
	<-begun
	mustDo(t, rt, "looked-at", spawn)
	<-begun
	calls.Go(func() { must(t, errOf(peek(rt, "looked-at", look))) })
	<-begun
	_, body = fetch(t, rt, goroutines, "")
	for _, want := range []string{
		`{"actor_type":"bot", "name":"run", "work":"call"}`,
		`{"actor_type":"bot", "name":"ask", "work":"query"}`,
		`{"actor_type":"bot", "work":"task"}`,
	} {
		errorIf(t, !strings.Contains(body, "# labels: "+want), "no goroutine has the labels %s", want)
	}
	close(release)
	calls.Wait()
	for line := range strings.Lines(body) {
		secret := strings.Contains(line, "secret-key") || strings.Contains(line, "4711")
		errorIf(t, secret && strings.Contains(line, "labels"), "a label has a name of run time: %s", line)
	}

	// A worker or a goroutine of queries that is free has no labels.
	waitForGoroutines(t, rt, func(text string) bool { return !strings.Contains(text, `"actor_type"`) })
}

// waitForGoroutines waits until the profile of goroutines is as wanted.
func waitForGoroutines(t *testing.T, rt *runtime.Runtime, wanted func(text string) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, body := fetch(t, rt, goroutines, "")
		if wanted(body) {
			return
		}
		fatalIf(t, time.Now().After(deadline), "the goroutines are still:\n%s", body)
	}
}

func TestCloseEndsTheServerOfProfiles(t *testing.T) {
	rt := openProfiled(t, "127.0.0.1:0")
	addr := rt.PprofAddr()
	o := deskOptions(t.TempDir())
	o.PprofListen = addr
	wantTexts(t, "in use", errOf(runtime.Open(t.Context(), o)), "--pprof-listen")
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
	must(t, rt.Close())
	took := time.Since(begun)
	errorIf(t, took > 2*time.Minute, "Close took %v", took)
	<-ended
	stacks := make([]byte, 8<<20)
	for deadline := time.Now().Add(2 * time.Minute); bytes.Contains(stacks[:gort.Stack(stacks, true)], []byte("net/http/pprof.Profile")); {
		fatalIf(t, time.Now().After(deadline), "the profile is still taken")
		time.Sleep(10 * time.Millisecond)
	}
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
		t.Errorf("%s still listens", addr)
	}
}

func TestTheProgramTakesTheAddressOfProfiles(t *testing.T) {
	p := runtime.Program{Name: "node", Actors: []actor.Definition{office.definition()}}
	var log strings.Builder
	start := func(listen string) error {
		return p.Run(t.Context(), []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--pprof-listen", listen}, io.Discard, &log)
	}
	err := start(":6060")
	errorIf(t, !errors.Is(err, runtime.ErrUsage), "%v", err)
	p.Started = func(_ context.Context, rt *runtime.Runtime) error {
		errorIf(t, rt.PprofAddr() == "", "no profiles are served")
		return runtime.ErrStop
	}
	must(t, start("127.0.0.1:0"))
	errorIf(t, !strings.Contains(log.String(), "pprof=http://127.0.0.1:"), "the log does not name the address: %s", &log)
}
