package clock

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
)

// An index is a wake index in memory.
type index struct {
	mu    sync.Mutex
	rows  []engine.Wake // sorted
	fails error         // of the next look
	looks int
}

func (x *index) Wakes(after []byte, until int64, limit int) (found []engine.Wake, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.looks++
	if err, x.fails = x.fails, nil; err != nil {
		return nil, err
	}
	for _, row := range x.rows {
		if row.Due <= until && bytes.Compare(row.Row, append(slices.Clip(after), 0)) >= 0 && len(found) < limit {
			found = append(found, row)
		}
	}
	return found, nil
}

func compare(a, b engine.Wake) int { return bytes.Compare(a.Row, b.Row) }

func (x *index) add(due int64, name string) engine.Wake {
	w := engine.Wake{Due: due, ID: keyspace.ActorID{byte(len(name))}, Kind: keyspace.WakeAlarm, Name: name}
	w.Row = keyspace.AppendWakeRow(nil, w.Due, w.ID, w.Kind, w.Name, "")
	x.mu.Lock()
	defer x.mu.Unlock()
	at, _ := slices.BinarySearchFunc(x.rows, w, compare)
	x.rows = slices.Insert(x.rows, at, w)
	return w
}

func (x *index) drop(w engine.Wake) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if at, ok := slices.BinarySearchFunc(x.rows, w, compare); ok {
		x.rows = slices.Delete(x.rows, at, at+1)
	}
}

// stands reports whether a row is in the index. The clock may post a row that has just left it.
func (x *index) stands(w engine.Wake) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := slices.BinarySearchFunc(x.rows, w, compare)
	return ok
}

// mu guards what the functions that post share with the tests.
var mu sync.Mutex

// after calls f when a time has passed and nothing runs.
func after(d time.Duration, f func()) {
	time.Sleep(d)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	f()
}

// run runs a clock over an index in a bubble while test runs.
func run(t *testing.T, o Options, test func(*Clock)) {
	synctest.Test(t, func(t *testing.T) {
		o.Logger = slog.New(slog.DiscardHandler)
		if o.Most == 0 {
			o.Most = 4
		}
		if o.Paused == nil {
			o.Paused = new(park.Lot)
		}
		post := o.Post
		o.Post = func(f *Firing) (bool, *host.Address, error) {
			mu.Lock()
			defer mu.Unlock()
			return post(f)
		}
		k := New(o)
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.Run()
		}()
		test(k)
		k.Stop()
		k.Stop()
		<-done
	})
}

// TestRowsFireOnceWhenTheyAreDue sets rows at random times, while other rows fire and take their
// time.
func TestRowsFireOnceWhenTheyAreDue(t *testing.T) {
	var x index
	fired, running, most := make(map[string]time.Time), 0, 0
	run(t, Options{Index: &x, Most: 100, Post: func(f *Firing) (bool, *host.Address, error) {
		if !x.stands(f.Row) {
			return false, nil, nil
		}
		_, twice := fired[f.Row.Name]
		errorIf(t, twice, "%s fires twice", f.Row.Name)
		fired[f.Row.Name] = time.Now()
		running++
		most = max(most, running)
		takes := time.Duration(len(fired)%7) * 10 * time.Millisecond
		go func() {
			time.Sleep(takes)
			x.drop(f.Row)
			mu.Lock()
			running--
			mu.Unlock()
			f.Done(nil)
		}()
		return true, nil, nil
	}}, func(k *Clock) {
		x.add(0, "of the start")
		r, due := rand.New(rand.NewPCG(1, 2)), make(map[string]time.Time)
		for i := range 1000 {
			name, at := strconv.Itoa(i), time.Now().Add(time.Duration(r.IntN(3000)-500)*time.Millisecond).Truncate(time.Millisecond)
			x.add(at.UnixMilli(), name)
			k.Poke(at.UnixMilli())
			if due[name] = at; at.Before(time.Now()) {
				due[name] = time.Now()
			}
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		looks := 0
		after(time.Minute, func() {
			for name, at := range due {
				got := fired[name]
				errorIf(t, !got.Equal(at), "%s is due at %v and fires at %v", name, at, got)
			}
			errorIf(t, len(fired) != len(due) || most < 2, "%d rows fired, %d at once", len(fired), most)
			errorIf(t, len(k.inFlight) != 0 || k.running != 0, "%d rows are in flight, %d run", len(k.inFlight), k.running)
			looks = x.looks
		})
		after(time.Hour, func() {
			errorIf(t, x.looks != looks, "a clock with nothing to do has looked %d times", x.looks-looks)
		})
	})
}

func TestRowsInFlightAreBounded(t *testing.T) {
	var x index
	running, most, fired := 0, 0, 0
	run(t, Options{Index: &x, Most: 3, Post: func(f *Firing) (bool, *host.Address, error) {
		if !x.stands(f.Row) {
			return false, nil, nil
		}
		fired++
		running++
		most = max(most, running)
		go func() {
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			x.drop(f.Row)
			f.Done(nil)
		}()
		return true, nil, nil
	}}, func(k *Clock) {
		for i := range 600 {
			x.add(1+int64(i%2), strconv.Itoa(i))
		}
		k.Poke(1)
		after(200*time.Second+1, func() {
			errorIf(t, fired != 600 || most != 3, "%d rows fired, %d at once", fired, most)
		})
	})
}

// TestARowThatStandsIsTriedAgain has work that fails, before it is in a mailbox and after that, and
// work that does nothing.
func TestARowThatStandsIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err  func() error
		wait time.Duration
	}{
		"an error":           {func() error { return errors.New("e") }, Rest},
		"an error of a call": {func() error { return host.Errorf(host.Internal, "e").With("retry_at", "2000-01-01T00:00:00Z") }, Rest},
		"a failed actor": {func() error {
			return host.Errorf(host.ActorFailed, "e").With("retry_at", time.Now().Add(3*time.Second).Format(time.RFC3339Nano))
		}, 3 * time.Second},
	} {
		for _, posted := range []bool{false, true} {
			var x index
			var times []time.Time
			run(t, Options{Index: &x, Post: func(f *Firing) (bool, *host.Address, error) {
				times = append(times, time.Now())
				err := c.err()
				if len(times) == 3 {
					x.drop(f.Row)
					err = nil
				}
				if posted {
					go f.Done(err)
				}
				return posted, nil, err
			}}, func(k *Clock) {
				x.add(1, "a")
				k.Poke(1)
				after(time.Hour, func() {
					errorIf(t, len(times) != 3 || times[1].Sub(times[0]) != c.wait || times[2].Sub(times[1]) != c.wait,
						"%s, posted %v: tried at %v", name, posted, times)
				})
			})
		}
	}
}

func TestRowsOfAPausedActorWaitForItsEnd(t *testing.T) {
	addr := host.Address{Type: "p", Key: []string{"a"}}
	key := string(address.Append(nil, addr))
	for _, posted := range []bool{false, true} {
		var x index
		var lot park.Lot
		tries := 0
		run(t, Options{Index: &x, Paused: &lot, Post: func(f *Firing) (bool, *host.Address, error) {
			tries++
			switch {
			case lot.At(addr) == nil:
				x.drop(f.Row)
				go f.Done(nil)
				return true, nil, nil
			case posted:
				go f.Paused(addr)
				return true, nil, nil
			}
			return false, &addr, nil
		}}, func(k *Clock) {
			lot.Pause(key, host.Pause{})
			x.add(1, "a")
			k.Poke(1)
			tried := func(want int) func() {
				return func() {
					fatalIf(t, tries != want, "posted %v: tried %d times, want %d", posted, tries, want)
				}
			}
			after(pausedRow-time.Minute, tried(1))
			after(2*time.Minute, tried(2)) // once a day, paused or not
			for _, f := range lot.Resume(key) {
				f()
			}
			after(0, tried(3))
			errorIf(t, len(x.rows) != 0, "posted %v: %d rows stand", posted, len(x.rows))
		})
	}
}

func TestARowWhoseActorIsResumedWhileItIsPutOffIsTriedAtOnce(t *testing.T) {
	var x index
	tries := 0
	run(t, Options{Index: &x, Post: func(f *Firing) (bool, *host.Address, error) {
		if tries++; tries == 2 {
			x.drop(f.Row)
			return false, nil, nil
		}
		return false, &host.Address{Type: "p"}, nil // the lot does not have it as paused
	}}, func(k *Clock) {
		x.add(1, "a")
		k.Poke(1)
		after(0, func() {
			errorIf(t, tries != 2, "tried %d times", tries)
		})
	})
}

func TestRetryIsForTheRowsOfOneActor(t *testing.T) {
	var x index
	tries := make(map[string]int)
	run(t, Options{Index: &x, Post: func(f *Firing) (bool, *host.Address, error) {
		tries[f.Row.Name]++
		return false, nil, errors.New("e")
	}}, func(k *Clock) {
		a := x.add(1, "a")
		x.add(1, "bb")
		k.Poke(1)
		synctest.Wait()
		k.Retry(a.ID)
		after(0, func() {
			errorIf(t, tries["a"] != 2 || tries["bb"] != 1, "%v", tries)
		})
	})
}

func TestAnIndexThatCannotBeReadIsReadAgain(t *testing.T) {
	x := index{fails: errors.New("the disk is busy")}
	fired := 0
	run(t, Options{Index: &x, Post: func(f *Firing) (bool, *host.Address, error) {
		fired++
		x.drop(f.Row)
		return false, nil, nil
	}}, func(k *Clock) {
		x.add(1, "a")
		after(time.Second-1, func() {
			errorIf(t, fired != 0, "the row fired at once")
		})
		after(1, func() {
			errorIf(t, fired != 1, "the row fired %d times", fired)
		})
	})
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
