//go:build unix

// Command mutants changes the code on purpose, in one small place at a time, and counts the changes
// that the tests find.
//
//	go run ./runtime/internal/policy/mutants [flags] ./package...
//
// A change, a mutant, negates a condition or a part of one, moves the boundary of a comparison,
// leaves out a statement, or returns nil for an error. All mutants of the packages are compiled
// into one test binary, which is started with the number of the one that it switches on, and only
// with tests that reach it: that come to a place where it makes a difference. Nothing is written in
// the module: `go test -overlay` compiles the changed text.
//
// With -base the command compares the tests with those of another checkout, which run on the same
// mutants: what only those find is lost. With -matrix it runs each test alone, and looks for the
// shortest tests that find as much as all.
//
// There is no race detector, because a mutant notes with a plain store that it was reached. A
// program that a test compiles itself has no mutants; a test binary that starts itself again has.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	from   = flag.String("tests", "", "packages whose tests run, separated by commas; those with the mutants if empty")
	sample = flag.Int("sample", 0, "how many mutants to try, spread over the code; 0 for all")
	seed   = flag.Uint64("seed", 1, "another seed takes another sample")
	match  = flag.String("run", ".", "a regular expression: the tests that run")
	base   = flag.String("base", "", "another checkout, whose tests are compared with those of this one")
	matrix = flag.Bool("matrix", false, "run each test alone, and print what it finds, and which tests are enough")
	limit  = flag.Duration("timeout", 0,
		"how long a run with a mutant may take; if 0, 10 s and 5 times what it takes without one")
	report  = flag.String("list", "", "a file for the result of each mutant")
	workers = flag.Int("workers", runtime.NumCPU(), "how many runs at a time")

	temp string // a folder for all that is written
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	_ = os.Setenv("CGO_ENABLED", "0")
	var err error
	if temp, err = os.MkdirTemp("", "mutants"); err == nil {
		err = measure(ctx)
		_ = os.RemoveAll(temp)
	}
	if err = cmp.Or(context.Cause(ctx), err); err != nil {
		log.Fatal(err)
	}
	stop()
}

// each calls do for all items, some at a time, until the context ends.
func each[T any](ctx context.Context, items []T, do func(T)) {
	var wg sync.WaitGroup
	free := make(chan struct{}, max(1, *workers))
	for _, item := range items {
		free <- struct{}{}
		wg.Go(func() {
			if ctx.Err() == nil {
				do(item)
			}
			<-free
		})
	}
	wg.Wait()
}

func measure(ctx context.Context) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	packages := flag.Args()
	here, mutated, err := open(filepath.Dir(strings.TrimSpace(string(mod))), packages)
	if err != nil {
		return err
	}
	both := []*checkout{here}
	if *base != "" {
		other, _, err := open(*base, packages)
		if err != nil {
			return err
		}
		code := maps.Clone(other.code)
		maps.Copy(code, here.code)
		for _, file := range slices.Sorted(maps.Keys(code)) {
			if !bytes.Equal(here.code[file], other.code[file]) {
				return fmt.Errorf("%s is not the same in %s and %s", file, here.root, other.root)
			}
		}
		both = append(both, other)
	}
	start := time.Now()
	all, err := compile(ctx, both, mutated)
	if err != nil {
		return err
	}
	log.Printf("%d mutants compiled in %.1f s", len(all)-1, time.Since(start).Seconds())
	start = time.Now()
	for _, c := range both {
		if err := c.learn(ctx, len(all)); err != nil {
			return err
		}
	}
	log.Printf("%d tests run without a mutant in %.1f s", len(here.tests), time.Since(start).Seconds())

	chosen := choose(all)
	start = time.Now()
	for i, c := range both {
		if *matrix && i == 0 {
			c.tryEach(ctx, chosen)
		} else {
			each(ctx, chosen, func(m *mutant) { c.try(ctx, m) })
		}
	}
	each(ctx, chosen, func(m *mutant) {
		if other := both[len(both)-1]; here.verdicts[m.id].found != other.verdicts[m.id].found {
			for range 2 { // it may be chance
				here.try(ctx, m)
				other.try(ctx, m)
			}
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log.Printf("%d runs with a mutant, %.1f a second", started.Load(),
		float64(started.Load())/time.Since(start).Seconds())
	for _, c := range both {
		c.summary(chosen)
	}
	if *base != "" {
		compare(here, both[1], chosen)
	}
	if *matrix {
		here.enough(chosen)
	}
	if *report != "" {
		return here.write(*report, chosen)
	}
	return nil
}

// compile makes the mutants and the tests with them. No mutant has the id 0.
func compile(ctx context.Context, both []*checkout, mutated []*folder) (all []*mutant, err error) {
	here := both[0]
	all = []*mutant{{dropped: true}}
	of := map[string][]*mutant{} // a file
	for _, f := range mutated {
		for _, name := range f.GoFiles {
			file := here.below(f, name)
			if of[file], err = mutantsOf(file, here.code[file]); err != nil {
				return nil, err
			}
			for _, m := range of[file] {
				m.id = len(all)
				all = append(all, m)
			}
		}
	}
	texts := map[string]string{} // the changed texts, as files of their own
	write := func(file string, text []byte) error {
		texts[file] = filepath.Join(temp, strings.ReplaceAll(file, "/", "-"))
		return os.WriteFile(texts[file], text, 0o600)
	}
	for _, f := range mutated {
		if err := write(here.below(f, "zz_mutants.go"), fmt.Appendf(nil, helpers, f.Name, len(all))); err != nil {
			return nil, err
		}
	}
	for again := true; again; {
		for file, mutants := range of {
			if err := write(file, rewrite(here.code[file], mutants)); err != nil {
				return nil, err
			}
		}
		again = false
		for _, c := range both {
			if !again {
				again, err = c.build(ctx, texts, all)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// choose takes the sample: a random mutant of each of so many equal stretches of the code.
func choose(all []*mutant) []*mutant {
	all = slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool { return m.dropped })
	n := len(all)
	if *sample <= 0 || *sample >= n {
		return all
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	var chosen []*mutant
	for i := range *sample {
		from, to := i*n / *sample, (i+1)*n / *sample
		chosen = append(chosen, all[from+random.IntN(to-from)])
	}
	return chosen
}

// summary prints how many mutants the tests of each package reach, and find before another package
// does; and then those of all packages.
func (c *checkout) summary(chosen []*mutant) {
	print := func(name string, of func(*test) bool) {
		reached, found := 0, 0
		for _, m := range chosen {
			if slices.ContainsFunc(c.reaching(m), of) {
				reached++
			}
			if v := c.verdicts[m.id]; v.found > 0 && of(v.test) {
				found++
			}
		}
		fmt.Printf("%s: %d mutants, %d reached, %d found, %d reached and not found\n", name,
			len(chosen), reached, found, reached-found)
	}
	for _, f := range c.folders {
		print(f.Dir, func(t *test) bool { return t.folder == f })
	}
	if len(c.folders) > 1 {
		print(c.root, func(*test) bool { return true })
	}
}

// compare prints the mutants that only one of both finds.
func compare(here, base *checkout, chosen []*mutant) {
	for _, m := range chosen {
		a, b := here.verdicts[m.id], base.verdicts[m.id]
		if a.runs == 1 {
			continue
		}
		word, by := "flaky", cmp.Or(a.by, b.by)
		if a.found == 0 {
			word = "lost"
		} else if b.found == 0 {
			word = "gained"
		}
		fmt.Printf("%-6s %s, by %s (base in %d, here in %d of %d runs)\n", word, m, by, b.found, a.found, a.runs)
	}
}

// write lists what found each mutant.
func (c *checkout) write(file string, chosen []*mutant) error {
	var out bytes.Buffer
	for _, m := range chosen {
		verdict := c.verdicts[m.id].by
		if verdict == "" && len(c.reaching(m)) == 0 {
			verdict = "not reached"
		}
		fmt.Fprintf(&out, "%-40s %s\n", cmp.Or(verdict, "NOT FOUND"), m)
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// enough prints what each test finds, and then few lines of tests that find as much as all.
func (c *checkout) enough(chosen []*mutant) {
	found := func(tests ...*test) (n int) {
		for _, m := range chosen {
			if slices.ContainsFunc(tests, func(t *test) bool { return t.finds[m.id] == 1 }) {
				n++
			}
		}
		return n
	}
	without := func(tests []*test, t *test) []*test {
		return slices.DeleteFunc(slices.Clone(tests), func(other *test) bool { return other == t })
	}
	all := found(c.tests...)
	fmt.Println("lines seconds finds alone  test")
	for _, t := range c.tests {
		fmt.Printf("%5d %7.2f %5d %5d  %s\n", t.lines, t.cost.Seconds(), found(t),
			all-found(without(c.tests, t)...), t.name)
	}
	var set []*test // grows by what finds the most per line
	for has := 0; has < all; has = found(set...) {
		gain := func(t *test) float64 { return float64(found(append(slices.Clip(set), t)...)-has) / float64(t.lines) }
		set = append(set, slices.MaxFunc(c.tests, func(a, b *test) int { return cmp.Compare(gain(a), gain(b)) }))
	}
	for _, t := range slices.SortedFunc(slices.Values(set), func(a, b *test) int { return b.lines - a.lines }) {
		if rest := without(set, t); found(rest...) == all {
			set = rest
		}
	}
	for _, in := range []bool{true, false} {
		lines := 0
		fmt.Println(map[bool]string{true: "enough:", false: "find nothing else:"}[in])
		for _, t := range c.tests {
			if slices.Contains(set, t) == in {
				fmt.Printf("%5d  %s\n", t.lines, t.name)
				lines += t.lines
			}
		}
		fmt.Printf("%5d  lines together\n", lines)
	}
}
