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
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/internal/testutil"
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
	for _, want := range []string{"memory is divided", "budget=256MiB", `by="the configuration"`, "cache=10MiB", "memtables=24MiB", "sql=48MiB", "actors=24MiB"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, log.String())
		}
	}
	w := httptest.NewRecorder()
	rt.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{`cairn_memory_budget_bytes{part="all"} 2.68435456e+08`, `cairn_memory_budget_bytes{part="cache"} 1.048576e+07`} {
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
		if got := percent(); got != c.want || c.limited != (limit >= 128<<20 && limit <= 448<<20) || !c.limited && limit != before {
			t.Errorf("%+v: the heap grows by %d %%, the limit is %d bytes", c, got, limit)
		}
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
	o, err := configured(t, "memory = \"512MiB\"\n[storage]\ncache_bytes = 1048576\nmemtable_bytes = \"2MiB\"\n[sql]\nmax_temporary = \"1GiB\"\n")
	errorIf(t, err != nil || o.Memory != 512<<20 || o.CacheBytes != 1<<20 || o.MemTableBytes != 2<<20 || o.SQL.MaxTemporary != 1<<30,
		"%+v, %v", o, err)
	// The command's scenarios have what is refused.
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

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
