package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/debug"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A job is what one process does to one store. Each job has a process of its own, so that it begins
// with empty caches and its memory is its own.
type job struct {
	What     string // a key of work
	Side     string
	Dir      string // of the store
	Actors   int    // in the store
	Hot      int    // "call" takes only the first of them; 0 for all
	Callers  int
	Calls    int           // "kill" writes as many before it is ready
	Time     time.Duration // of a measurement
	Interval time.Duration // "soak" reports as often
	Seed     int
}

// asChild in the environment makes the program do the job that it holds.
const asChild = "CAIRN_GROWTH_JOB"

// work is what jobs do. What they report with say goes to the parent as it happens.
var work = map[string]func(j job, say func(result)){
	"build": build, "kill": loadUntilKilled, "open": reopen, "get": gets, "call": calls, "list": list, "park": park, "parked": parked, "soak": soak,
}

// child does a job. It ends with its parent, whose end closes standard input.
func child(text string) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	goruntime.GOMAXPROCS(goruntime.NumCPU() + 1) // like runtime.Main
	debug.SetGCPercent(400)                      // likewise, as far as the limit, which is that of a node with 4 GiB
	debug.SetMemoryLimit(2816 << 20)
	var j job
	check(json.Unmarshal([]byte(text), &j))
	out := json.NewEncoder(os.Stdout)
	work[j.What](j, func(r result) { check(out.Encode(r)) })
}

// start runs a job in a new process and passes on what it reports. With kill the process is killed
// after its first report.
func start(j job, kill bool, heard func(result)) {
	text, err := json.Marshal(j)
	check(err)
	self, err := os.Executable()
	check(err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), asChild+"="+string(text))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	check(err)
	defer in.Close()
	out, err := c.StdoutPipe()
	check(err)
	check(c.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r result
		check(json.Unmarshal(lines.Bytes(), &r))
		heard(r)
		if kill {
			check(c.Process.Kill())
			break
		}
	}
	if err := c.Wait(); err != nil && !kill {
		check(fmt.Errorf("%s of %s: %w", j.What, j.Side, err))
	}
}

// run runs a job and returns its last report.
func run(j job) (r result) {
	start(j, j.What == "kill", func(got result) { r = got })
	return r
}

// build creates the actors, compacts the store, and reports its size.
func build(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	r := each(j.Callers, j.Actors, s.create)
	s.close()
	r.Disk = compact(j.Side, j.Dir)
	for i := range j.Actors {
		p := payloadOf(i)
		r.Payload += float64(p.bytes())
	}
	say(r)
}

// pick returns an actor at random.
func (j *job) pick(r *rand.Rand) int {
	if j.Hot > 0 {
		return r.IntN(j.Hot)
	}
	return r.IntN(j.Actors)
}

// found ends the program unless an actor was there.
func found(was bool) {
	if !was {
		check(fmt.Errorf("an actor of the store is missing"))
	}
}

// loadUntilKilled makes durable calls of any actors, and reports when there are so many that a
// start after them has as much to read from the log on either side.
func loadUntilKilled(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	ready := make(chan struct{}, 1<<20)
	go func() {
		for range j.Calls {
			<-ready
		}
		say(result{})
	}()
	load(j.Callers, time.Hour, j.Seed, func(r *rand.Rand) {
		found(s.call(j.pick(r), false))
		select {
		case ready <- struct{}{}:
		default:
		}
	})
}

// reopen opens a store whose process was killed.
func reopen(j job, say func(result)) {
	begin, spent := time.Now(), usage.Processor()
	s := open(j.Side, j.Dir)
	say(result{Took: time.Since(begin).Seconds(), CPU: usage.Processor() - spent, Memory: resident()})
	s.close()
}

func gets(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	say(load(j.Callers, j.Time, j.Seed, func(r *rand.Rand) { found(s.get(j.pick(r))) }))
	s.close()
}

// calls makes durable calls. Actors that are hot have been called before.
func calls(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	each(j.Callers, j.Hot, func(i int) { found(s.call(i, false)) })
	say(load(j.Callers, j.Time, j.Seed, func(r *rand.Rand) { found(s.call(j.pick(r), false)) }))
	s.close()
}

func list(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	begin, spent := time.Now(), usage.Processor()
	n := s.list()
	took := time.Since(begin).Seconds()
	if n != j.Actors {
		check(fmt.Errorf("%s: %d actors were listed of %d", j.Side, n, j.Actors))
	}
	say(result{Rate: float64(n) / took, Took: took / float64(n),
		CPU: (usage.Processor() - spent) / float64(n), Memory: resident()})
	s.close()
}

// park starts a run of each actor that waits for a year.
func park(j job, say func(result)) {
	c := openCairn(j.Dir)
	say(each(j.Callers, j.Actors, func(i int) {
		_, err := rest.Of(sleepers.Ref(c, keyOf(i))).Start(context.Background(), actor.None{})
		check(err)
	}))
	c.close()
}

// parked opens a node whose runs wait, and asks one of their actors.
func parked(j job, say func(result)) {
	begin, spent := time.Now(), usage.Processor()
	c := openCairn(j.Dir)
	i := rand.New(rand.NewPCG(uint64(j.Seed), 0)).IntN(j.Actors)
	_, err := answer.Call(context.Background(), sleepers.Ref(c, keyOf(i)), actor.None{}, actor.Existing())
	check(err)
	r := result{Took: time.Since(begin).Seconds(), CPU: usage.Processor() - spent}
	time.Sleep(j.Time) // what the node does after its start counts for its memory
	r.Memory = resident()
	say(r)
	c.close()
}
