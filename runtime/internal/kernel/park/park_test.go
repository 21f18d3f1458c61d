package park

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

var (
	addr  = host.Address{Type: "p", Key: []string{"a"}}
	other = host.Address{Type: "p", Key: []string{"b"}}
	key   = string(address.Append(nil, addr))
)

func TestAPausedActorRefusesCallsAndKeepsWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lot Lot
		ran := make(map[string]int)
		count := func(name string) func() { return func() { ran[name]++ } }
		fatalIf(t, lot.Park(addr, "x", count("never")) || lot.Refuse(addr) != nil || lot.Resume(key) != nil,
			"an actor that is not paused is treated as one that is")
		since := time.Now()
		lot.Pause(key, host.Pause{Since: since})
		lot.Pause(key, host.Pause{Since: since, Reason: "r"})
		fatalIf(t, lot.Len() != 1 || lot.At(addr) == nil || lot.Of(key).Reason != "r" || lot.At(other) != nil || lot.Refuse(other) != nil,
			"%d actors are paused, %+v", lot.Len(), lot.At(addr))
		lot.Of(key).Reason = "changed by the caller"
		e, ok := lot.Refuse(addr).(*host.Error)
		if !ok || e.Code != host.ActorPaused || !e.Retryable || e.Message != "actor p/a is paused: r" || e.Metadata["reason"] != "r" ||
			e.Metadata["since"] != since.Format(time.RFC3339Nano) {
			t.Errorf("%+v", e)
		}
		errorIf(t, lot.Park(other, "x", count("never")), "something was parked for an actor that is not paused")
		errorIf(t, !lot.Park(addr, "x", count("replaced")) || !lot.Park(addr, "x", count("x")) || !lot.Park(addr, "y", count("y")),
			"nothing was parked for an actor that is paused")
		n := lot.Parked()[key]
		errorIf(t, n != 2, "%d functions are parked", n)
		time.Sleep(time.Minute)
		for _, f := range lot.Resume(key) {
			f()
		}
		errorIf(t, len(ran) != 2 || ran["x"] != 1 || ran["y"] != 1, "%v ran", ran)
		errorIf(t, lot.Len() != 0 || lot.Refuse(addr) != nil || len(lot.Resume(key)) != 0 || !lot.ResumedAt(key).Equal(time.Now()),
			"the actor is still paused, or the lot has forgotten that it was resumed")
	})
}

func TestTheTimeOfAResumeIsKeptForAWhileAndOnlyIfSomethingWasParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lot Lot
		for i := range 100 {
			a := host.Address{Type: "p", Key: []string{strconv.Itoa(i)}}
			k := string(address.Append(nil, a))
			lot.Pause(k, host.Pause{})
			if i%2 == 0 {
				lot.Park(a, "x", func() {})
			}
			lot.Resume(k)
			at := lot.ResumedAt(k)
			fatalIf(t, at.IsZero() == (i%2 == 0), "%d was resumed at %v", i, at)
			time.Sleep(resumedFor / 10)
		}
		n := len(lot.resumed)
		errorIf(t, n > 10, "the times of %d actors are kept", n)
	})
}

// TestNothingThatIsParkedIsLost parks while the actor is paused and resumed by others.
func TestNothingThatIsParkedIsLost(t *testing.T) {
	var lot Lot
	var parked, ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 2000 {
				if lot.Park(addr, strconv.Itoa(i)+"/"+strconv.Itoa(n), func() { ran.Add(1) }) {
					parked.Add(1)
				}
			}
		})
		wg.Go(func() {
			for range 500 {
				lot.Pause(key, host.Pause{})
				for _, f := range lot.Resume(key) {
					f()
				}
			}
		})
	}
	wg.Wait()
	for _, f := range lot.Resume(key) {
		f()
	}
	errorIf(t, parked.Load() != ran.Load() ||
		lot.Len() != 0, "%d of %d ran, and %d actors are paused", ran.Load(), parked.Load(), lot.Len())
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
