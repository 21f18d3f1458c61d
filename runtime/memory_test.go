package runtime

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestPartsOfTheMemoryFitIntoIt(t *testing.T) {
	for _, budget := range []int64{MinMemory, 200 << 20, 512 << 20, 1 << 30, 4 << 30, 64 << 30} {
		o := Options{Dir: "d", Memory: budget}
		must(t, o.Validate(), budget)
		o.divideMemory(budget)
		sum := int64(0)
		for _, p := range memoryParts() {
			n := p.size(&o)
			if n <= 0 {
				t.Errorf("%d: %s gets %d bytes", budget, p.name, n)
			}
			sum += n
		}
		errorIf(t, sum > budget/4*3, "of %d bytes the parts take %d", budget, sum)
		if o.SQL.ConnMemory < 1<<20 || o.SQL.ConnMemory > o.SQL.MaxMemory || o.SQL.Temporary > o.SQL.MaxTemporary ||
			int64(o.Limits.WriteSetBytes) > o.MaxWriteBytes || o.SQL.TurnBytes > o.MaxWriteBytes {
			t.Errorf("%d: one may take more than all: %+v", budget, o)
		}
		again := o
		if again.divideMemory(budget * 2); again.CacheBytes != o.CacheBytes || again.SQL != o.SQL {
			t.Errorf("%d: what is set is divided again", budget)
		}
	}
}

func TestMemoryOfANodeFollowsTheMachineUpToABound(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		machine, cgroup int64
		want            int64
		source          string
	}{
		{0, 0, DefaultMaxMemory, "the default"},
		{2 * gib, 0, 3 * gib / 2, "the machine"},
		{64 * gib, 0, DefaultMaxMemory, "the default"},
		{64 * gib, 2 * gib, 2 * gib, "the cgroup"},
		{64 * gib, 4 * gib, 4 * gib, "the cgroup"},
		{64 * gib, 5 * gib, DefaultMaxMemory, "the default"},
		{64 * gib, 1 << 20, MinMemory, "the cgroup"},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}}
		if test.machine > 0 {
			root["proc/meminfo"] = &fstest.MapFile{Data: fmt.Appendf(nil, "MemTotal: %d kB\n", test.machine>>10)}
		}
		if test.cgroup > 0 {
			root["sys/fs/cgroup/memory.max"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", test.cgroup)}
		}
		if got, source := defaultMemory(root); got != test.want || source != test.source {
			t.Errorf("%+v: %d by %q", test, got, source)
		}
	}
}

func TestDivisionOfTheMemoryIsUsedLoggedAndShown(t *testing.T) {
	var log bytes.Buffer
	limit := debug.SetMemoryLimit(-1)
	rt, err := Open(context.Background(), Options{
		Disk: engine.NewDisk(), Memory: 256 << 20, CacheBytes: 10 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must(t, err)
	defer rt.Close()
	got := debug.SetMemoryLimit(-1)
	errorIf(t, got != limit, "opening a node changes the process's memory limit from %d to %d", limit, got)
	for _, want := range []string{"memory is divided", "budget=256MiB", `by="the configuration"`, "cache=10MiB",
		"memtables=24MiB", "sql=48MiB", "actors=24MiB"} {
		errorIf(t, !strings.Contains(log.String(), want), "the log lacks %s: %s", want, log.String())
	}
	w := httptest.NewRecorder()
	rt.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{`cairn_memory_budget_bytes{part="all"} 2.68435456e+08`,
		`cairn_memory_budget_bytes{part="cache"} 1.048576e+07`} {
		errorIf(t, !strings.Contains(w.Body.String(), want), "the metrics lack %s", want)
	}
}

func TestProgramSetsTheLimitsOfGoUnlessTheUserDid(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	before := debug.SetMemoryLimit(-1)
	for _, c := range []struct {
		gomemlimit, gogc string
		set, want        int  // how far the heap grows
		limited          bool // the memory limit is set
	}{
		{"", "", 100, gcPercent, true},
		{"", "100", 100, 100, true}, // the user has set it
		{"", "", 50, 50, true},      // the program has set it
		{"1GiB", "", 100, gcPercent, false},
		{"1GiB", "off", 100, 100, false},
	} {
		t.Setenv("GOMEMLIMIT", c.gomemlimit)
		t.Setenv("GOGC", c.gogc)
		debug.SetGCPercent(c.set)
		o := Options{Dir: "d", Memory: 512 << 20}
		undo := o.limitGo()
		limit := debug.SetMemoryLimit(-1)
		got := percent()
		errorIf(t, got != c.want || c.limited != (limit >= 128<<20 && limit <= 448<<20) || !c.limited && limit != before,
			"%+v: the heap grows by %d %%, the limit is %d bytes", c, got, limit)
		undo()
		if got, limit := percent(), debug.SetMemoryLimit(-1); got != c.set || limit != before {
			t.Errorf("%+v: afterwards the heap grows by %d %%, and the limit is %d bytes", c, got, limit)
		}
	}
}

// configured reads a configuration.
func configured(t *testing.T, text string) (o Options, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.toml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := readConfig(path)
	c.apply(&o)
	return o, err
}

func TestConfigurationTakesSizes(t *testing.T) {
	o, err := configured(t,
		"memory = \"512MiB\"\n[storage]\ncache_bytes = 1048576\nmemtable_bytes = \"2MiB\"\n[sql]\nmax_temporary = \"1GiB\"\n")
	errorIf(t, err != nil || o.Memory != 512<<20 || o.CacheBytes != 1<<20 || o.MemTableBytes != 2<<20 || o.SQL.MaxTemporary != 1<<30,
		"%+v, %v", o, err)
	// The command's scenarios test refused values.
}

func TestEveryLimitOfATypeIsConfiguredAndListed(t *testing.T) {
	page, err := os.ReadFile("../docs/operate/limits.md")
	must(t, err)
	text, keys := "[limits.room]\n", reflect.TypeFor[typeLimits]()
	for i := range keys.NumField() {
		key, value := keys.Field(i).Tag.Get("toml"), "2000000"
		if keys.Field(i).Type == reflect.TypeFor[span]() {
			value = `"7s"`
		}
		text += key + " = " + value + "\n"
		errorIf(t, !strings.Contains(string(page), "\n| `"+key+"` |"), "docs/operate/limits.md does not list %s", key)
	}
	o, err := configured(t, text)
	must(t, err)
	limits := reflect.ValueOf(o.TypeLimits["room"])
	for i := range limits.NumField() {
		if limits.Field(i).IsZero() {
			t.Errorf("the configuration cannot set %s", limits.Type().Field(i).Name)
		}
	}
}

func TestMemoryOfTheMachineIsReadFromItsFiles(t *testing.T) {
	const meminfo = "MemTotal:        8388608 kB\nMemFree:         123 kB\n" // 8 GiB
	const noLimit = "9223372036854771712\n"
	for name, test := range map[string]struct {
		files  map[string]string
		want   int64
		source string
	}{
		"nothing is known": {nil, 0, ""},
		"no cgroups":       {map[string]string{"proc/meminfo": meminfo}, 8 << 30, "the machine"},
		"faulty meminfo":   {map[string]string{"proc/meminfo": "MemTotal: much kB\n"}, 0, ""},
		"version 2": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "0::/app.slice/cairn.service\n", "sys/fs/cgroup/app.slice/cairn.service/memory.max": "536870912\n"}, 512 << 20, "the cgroup"},
		"version 2, no max": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/app\n",
			"sys/fs/cgroup/app/memory.max": "max\n"}, 8 << 30, "the machine"},
		"version 2, above": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/b/memory.max": "2147483648\n"}, 1 << 30, "the cgroup"},
		"version 2, as root": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, "the cgroup"},
		"version 2, hidden": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../kubepods/x\n",
			"sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, "the cgroup"},
		"version 1": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n", "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": noLimit}, 512 << 20, "the cgroup"},
		"version 1, hidden": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n"}, 128 << 20, "the cgroup"},
		"version 1, none": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": noLimit}, 8 << 30, "the machine"},
		"larger than it is": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "17179869184\n"}, 8 << 30, "the machine"},
		"faulty files": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "memory\n4:memory\n0::/a\n", "sys/fs/cgroup/a/memory.max": "-5\n"}, 8 << 30, "the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			root := make(fstest.MapFS)
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got, source := machineMemory(root); got != test.want || source != test.source {
				t.Errorf("%d bytes by %q, want %d by %q", got, source, test.want, test.source)
			}
		})
	}
}

func TestNATSListenWithoutAServerSaysWhatToSet(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	o.EnsureDefaults()
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "set it to localnats.Serve") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryOperationThatAuthorizeIsAskedAboutHasAConstant(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("internal", "gateway", "serve", "*.go"))
	must(t, err)
	var asked, options string
	for _, path := range append(sources, "options.go") {
		text, err := os.ReadFile(path)
		must(t, err)
		asked, options = asked+options, string(text)
	}
	names := regexp.MustCompile(`(?m)^\s*(?:const )?(\w+) +Operation += "`).FindAllStringSubmatch(asked, -1)
	fatalIf(t, len(names) < 14, "only %d operations were read: %v", len(names), names)
	for _, name := range names {
		errorIf(t, !regexp.MustCompile(`\bOp`+name[1]+` += serve\.`+name[1]+`\b`).MatchString(options),
			"package runtime has no Op%s", name[1])
	}
}

func TestURLsInLogsHaveNoPasswords(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "localhost:4222": "localhost:4222", "nats://node:p@a:1,tls://s3cret@b:2": "nats://node:xxxxx@a:1,tls://xxxxx@b:2",
		"node:p@a:1": "xxxxx",
	} {
		got := withoutPasswords(urls)
		errorIf(t, got != want, "%s: %s, not %s", urls, got, want)
	}
}

func TestMetricsOfStorageLeaveOutTypesThatAreNoText(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	must(t, err)
	defer store.Close()
	for _, typ := range []string{"cart", "\xff"} { // no node makes the second
		identity := engine.Identity{Namespace: "ns", Type: typ, Key: []string{"a"}}
		sp, err := store.NewSpace(store.NewActorID(identity))
		must(t, err)
		if err = sp.Writes().Create(identity); err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		sp.Close()
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newStorageMetrics(store, "ns"))
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "cairn_type_actors" && len(f.GetMetric()) == 1 && f.GetMetric()[0].GetLabel()[0].GetValue() == "cart" {
			return
		}
	}
	t.Errorf("the metrics have not the type cart alone: %v", families)
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
