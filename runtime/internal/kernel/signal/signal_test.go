package signal

import (
	"testing"
	"testing/synctest"
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
	topics.Notify("a", "queue") // nobody waits
	queue, other, neighbour := topics.Subscribe("a", "queue"), topics.Subscribe("a", "stream"), topics.Subscribe("b", "queue")
	if woken(queue) {
		t.Error("a signal from before the wait woke it")
	}
	for range 3 {
		topics.Notify("a", "queue")
	}
	if !woken(queue) || woken(queue) {
		t.Error("several signals did not become one")
	}
	if woken(other) || woken(neighbour) {
		t.Error("a signal for another topic or actor woke a waiter")
	}
	queue.Close()
	topics.Notify("a", "queue")
	if woken(queue) {
		t.Error("a wait that is over was woken")
	}
	if n := topics.Len(); n != 2 {
		t.Errorf("%d actors have subscriptions", n)
	}
	other.Close()
	neighbour.Close()
	if n := topics.Len(); n != 0 {
		t.Errorf("subscriptions of %d actors are left", n)
	}
}

func TestDestructionEndsTheWaitsForTheActor(t *testing.T) {
	var topics Topics
	own, neighbour := topics.Subscribe("a", "run"), topics.Subscribe("b", "run")
	topics.End("a")
	if !woken(own) || !own.Destroyed() {
		t.Error("the wait did not end")
	}
	if woken(neighbour) || neighbour.Destroyed() {
		t.Error("a wait for another actor ended")
	}
	if next := topics.Subscribe("a", "run"); next.Destroyed() {
		t.Error("a wait that began after the destruction has ended")
	}
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
