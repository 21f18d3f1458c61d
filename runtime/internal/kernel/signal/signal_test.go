package signal

import (
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// woken takes the signal of a subscription, if it has one.
func woken(sub *Subscription) bool {
	select {
	case <-sub.C:
		return true
	default:
		return false
	}
}

func TestASignalReachesTheWaitersForItsTopic(t *testing.T) {
	var topics Topics
	topics.Notify("a", "queue") // there is no waiter
	queue, other, neighbour := topics.Subscribe("a", "queue"), topics.Subscribe("a", "stream"), topics.Subscribe("b", "queue")
	errorIf(t, woken(queue), "a signal from before the wait woke it")
	for range 3 {
		topics.Notify("a", "queue")
	}
	errorIf(t, !woken(queue) || woken(queue), "several signals did not become one")
	errorIf(t, woken(other) || woken(neighbour), "a signal for another topic or actor woke a waiter")
	queue.Close()
	topics.Notify("a", "queue")
	errorIf(t, woken(queue), "a wait that is over was woken")
	n := topics.Len()
	errorIf(t, n != 2, "%d actors have subscriptions", n)
	other.Close()
	neighbour.Close()
	n = topics.Len()
	errorIf(t, n != 0, "subscriptions of %d actors are left", n)
}

func TestDestructionEndsTheWaitsForTheActor(t *testing.T) {
	var topics Topics
	own, neighbour := topics.Subscribe("a", "run"), topics.Subscribe("b", "run")
	topics.End("a")
	errorIf(t, !woken(own) || !own.Destroyed(), "the wait did not end")
	errorIf(t, woken(neighbour) || neighbour.Destroyed(), "a wait for another actor ended")
	next := topics.Subscribe("a", "run")
	errorIf(t, next.Destroyed(), "a wait that began after the destruction has ended")
}

func TestNoSignalIsLostBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var topics Topics
		items := make(chan int, 100)
		sub := topics.Subscribe("a", "queue")
		defer sub.Close()
		for i := range cap(items) {
			go func() {
				items <- i
				topics.Notify("a", "queue")
			}()
		}
		for taken := 0; taken < cap(items); {
			for len(items) > 0 {
				<-items
				taken++
			}
			if taken < cap(items) {
				<-sub.C // a signal that is lost is a deadlock of the bubble
			}
		}
	})
}

var errorIf = testutil.ErrorIf
