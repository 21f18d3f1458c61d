package profile

import (
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// labels returns the label lines of all goroutines that run a function of this package.
func labels(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	must(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	var all []string
	for _, stack := range strings.Split(b.String(), "\n\n") {
		if !strings.Contains(stack, "kernel/profile") {
			continue
		}
		for line := range strings.Lines(stack) {
			if s, ok := strings.CutPrefix(line, "# labels: "); ok {
				all = append(all, strings.TrimSpace(s))
			}
		}
	}
	return strings.Join(all, "\n")
}

func TestAGoroutineHasTheLabelsOfItsWork(t *testing.T) {
	l := Of(true, "shop")
	defer l.Leave()
	for i, test := range []struct {
		kind, name string
		declared   bool
		want       string
	}{
		{"call", "buy", true, `{"actor_type":"shop", "name":"buy", "work":"call"}`},
		{"call", "", true, `{"actor_type":"shop", "work":"call"}`},
		{"task", "user-4711", false, `{"actor_type":"shop", "work":"task"}`},
		{"call", "buy", true, `{"actor_type":"shop", "name":"buy", "work":"call"}`},
	} {
		l.Enter(test.kind, test.name, test.declared)
		got := labels(t)
		errorIf(t, got != test.want, "%d: labels %s, want %s", i, got, test.want)
	}
	n := len(*l.sets.Load())
	errorIf(t, n != 3, "%d label sets were made, want 3", n)
	l.Leave()
	if got := labels(t); got != "" {
		t.Errorf("labels %s after the work", got)
	}
}

func TestNamesThatAreNotDeclaredMakeNoLabelSets(t *testing.T) {
	l := Of(true, "shop")
	defer l.Leave()
	for i := range 1000 {
		l.Enter("alarm", fmt.Sprint("order-", i), false)
	}
	n := len(*l.sets.Load())
	errorIf(t, n != 1, "%d label sets were made, want 1", n)
}

func TestLabelSetsAreMadeByManyAtOnce(t *testing.T) {
	l := Of(true, "shop")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			defer l.Leave() // the goroutine may end after its test
			for i := range 100 {
				l.Enter("call", fmt.Sprint(i), true)
			}
		})
	}
	all.Wait()
	n := len(*l.sets.Load())
	errorIf(t, n != 100, "%d label sets were made, want 100", n)
}

func TestGoroutinesOfTheRuntimeHaveNoLabels(t *testing.T) {
	l := Of(true, "shop")
	run := Worker(true, func(kind string) { l.Enter(kind, "", true) })
	run("call")
	if got := labels(t); got != "" {
		t.Errorf("a worker keeps the labels %s after its job", got)
	}
	l.Enter("call", "buy", true)
	done := make(chan struct{})
	var got int
	go Unlabelled(true, func() {
		defer close(done)
		got = strings.Count(labels(t), "shop")
	})()
	<-done
	l.Leave()
	if got != 1 { // that of the test
		t.Errorf("%d goroutines have labels, want 1", got)
	}
}

func TestLabelsCostNoAllocation(t *testing.T) {
	for name, l := range map[string]*Labels{"on": Of(true, "shop"), "off": Of(false, "shop")} {
		run := Worker(l != nil, func(kind string) { l.Enter(kind, "buy", true) })
		run("call")
		if n := testing.AllocsPerRun(100, func() {
			run("call")
			l.Enter("alarm", "a-name-of-run-time", false)
			l.Leave()
		}); n != 0 {
			t.Errorf("%s: %v allocations for two jobs, want 0", name, n)
		}
	}
}

func BenchmarkEnter(b *testing.B) {
	for name, l := range map[string]*Labels{"on": Of(true, "shop"), "off": Of(false, "shop")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Enter("call", "buy", true)
				l.Leave()
			}
		})
	}
}

var must, errorIf = testutil.Must, testutil.ErrorIf
