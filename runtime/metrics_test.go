package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	gort "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/runtime"
)

func TestMetricsShowTypesMailboxesQueuesAndTheStore(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		carried := carry.Of(bots.Ref(h, "a"))
		for range 3 {
			must(t, errOf(carried.Send(t.Context(), "box")))
		}
		must(t, errOf(carried.Receive(t.Context(), handle.ReceiveConfig{Max: 1})))
		must(t, errOf(run.Call(t.Context(), bots.Ref(h, "a"), named(action(func(_ *bot, ctx *actor.Context) (string, error) {
			return "", ring.After(ctx, time.Second, "")
		})))))
		time.Sleep(5 * time.Second)

		for _, c := range []struct {
			name, label string
			want        float64
		}{
			{"cairn_queue_depth", "pending", 2}, {"cairn_queue_depth", "processing", 1}, {"cairn_queue_depth", "dead", 0},
			{"cairn_queue_oldest_seconds", "bot", 5}, {"cairn_queue_depth_unread", "", 0},
			{"cairn_type_actors_awake", "bot", 1}, {"cairn_type_actors", "bot", 1}, {"cairn_mailbox_items", "bot",
				0}, {"cairn_mailbox_bytes", "", 0},
			{"cairn_type_commits_total", "bot", metric(t, h, "cairn_commits_total", "")},
			{"cairn_type_commit_turns_total", "bot", metric(t, h, "cairn_commit_turns_total", "")},
			{"cairn_store_writable", "", 1}, {"cairn_wake_failures_total", "", 0}, {"cairn_store_memtables", "", 1},
		} {
			errorIf(t, metric(t, h, c.name, c.label) != c.want, "%s %s is %v, want %v", c.name, c.label,
				metric(t, h, c.name, c.label), c.want)
		}
		errorIf(t, metric(t, h, "cairn_commits_total", "") < 5, "%v commits", metric(t, h, "cairn_commits_total", ""))
		for _, name := range []string{"cairn_store_sync_seconds", "cairn_store_gate_seconds", "cairn_wake_seconds",
			"cairn_type_alarm_lag_seconds"} {
			errorIf(t, observed(t, h, name) == 0, "%s observed nothing", name)
		}
		for _, kind := range []string{"queue", "queue-stats"} {
			n := metric(t, h, "cairn_type_kind_bytes", kind)
			errorIf(t, n <= 0 || n > 2_000, "%v bytes of kind %s", n, kind)
		}
		errorIf(t, metric(t, h, "cairn_type_bytes", "bot") < 100, "%v bytes", metric(t, h, "cairn_type_bytes", "bot"))
		errorIf(t, observed(t, h, "cairn_type_alarm_lag_seconds") != observed(t, h, "cairn_alarm_lag_seconds"), "the lags differ")
	})
}

// observed returns how many values the histograms of a name have.
func observed(t *testing.T, h *actortest.Harness, name string) (n uint64) {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

// openWith starts a node in a directory, with its log.
func openWith(t *testing.T, dir string, drain time.Duration) (*runtime.Runtime, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	r, err := runtime.Open(t.Context(), runtime.Options{
		Dir: dir, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})}, DrainTimeout: drain, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	must(t, err)
	return r, log
}

func TestANodeSendsItsMetricsToACollector(t *testing.T) {
	var mu sync.Mutex
	sums, instances := map[string]float64{}, []string{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/metrics" {
			return
		}
		var m metricspb.MetricsData
		errorIf(t, err != nil || proto.Unmarshal(body, &m) != nil, "the body of %d bytes is not metrics, %v", len(body), err)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range m.ResourceMetrics[0].Resource.Attributes {
			if a.Key == "service.instance.id" {
				instances = append(instances, a.Value.GetStringValue())
			}
		}
		for _, metric := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			for _, p := range metric.GetSum().GetDataPoints() {
				sums[metric.Name] += p.GetAsDouble()
			}
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	dir := t.TempDir()
	for range 2 {
		r, log := openWith(t, dir, 0)
		mustDo(t, r, "a", add(1))
		must(t, r.Close())
		errorIf(t, strings.Contains(log.String(), "collector"), "the log is %s", log)
	}
	mu.Lock()
	defer mu.Unlock()
	errorIf(t, sums["cairn_commits_total"] < 2 || sums["cairn_store_commits_total"] < 2, "the collector got %v", sums)
	errorIf(t, len(slices.Compact(instances)) != 1 || len(instances[0]) != 36, "the instances are %v", instances)
}

// TestVariablesCountOnlyIfTheyNameACollector: variables of other programs of a machine must not
// stop a node that sends nothing.
func TestVariablesCountOnlyIfTheyNameACollector(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "shop")
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"} {
		t.Setenv(name, "none")
	}
	dir := t.TempDir()
	r, _ := openWith(t, dir, 0)
	must(t, r.Close())
	for name, value := range map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "1000",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} {
		t.Setenv(name, value)
	}
	_, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})}})
	errorIf(t, err == nil || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES"), "Open returned %v", err)
}

func TestACollectorThatHangsFailsNoClose(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer server.Close()
	defer close(gone)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	r, log := openWith(t, t.TempDir(), 3*time.Second) // also the time that a slow machine has to close the rest
	mustDo(t, r, "a", add(1))
	must(t, r.Close())
	errorIf(t, !strings.Contains(log.String(), "the last metrics did not reach the collector"), "the log is %s", log)
}

// Scenarios of the command test the refused addresses.
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
		// a page whose own host name resolves to 127.0.0.1 must not read profiles
		{"/debug/pprof/", "evil.example", http.StatusForbidden, ""},
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
	// Without an address there are no profiles and no labels. The profiles show the goroutines of
	// the whole process.
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
	go func() { // a profile in progress does not delay Close
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
