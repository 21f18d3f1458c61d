package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
)

// messageCommits are the two commits of one message that shares neither with others: the one that
// enqueues it and the one in which it is handled.
type messageCommits struct{ enqueue, handle commit }

// loggedMessages is how many messages a real run handles for its rows; fewer in tests.
var loggedMessages = 1000

// messagesLogged returns the commits of messages that were sent one after the other, each when the
// one before was handled.
func (b *bench) messagesLogged(n int) []messageCommits {
	return once(b, fmt.Sprint("messages ", n), func() []messageCommits { return b.logMessages(n) })
}

func (b *bench) logMessages(n int) []messageCommits {
	var handled atomic.Int64
	commits := b.logged(runtime.Options{Actors: depotDefinition(func(int64) { handled.Add(1) })},
		func(rt *runtime.Runtime) {
			ref := depots.Ref(rt, "one")
			for i := range n + 1 {
				send(ref, i)
				awaitHandled(ref, &handled, int64(i+1))
			}
		})
	var messages []messageCommits
	var sent commit
	for _, c := range commits {
		switch {
		case c.has(keyspace.QueueMessage.Kind, false):
			sent = c
		case c.has(keyspace.QueueMessage.Kind, true):
			messages = append(messages, messageCommits{sent, c})
		}
	}
	if len(messages) != n+1 {
		fatal(errors.New("not every message of the run made two commits of its own"))
	}
	return messages[1:] // the first one created the actor
}

// rawQueue commits the rows of messages from one goroutine that enqueues and one that handles,
// which follows it. Each waits until its commit is durable before the next one.
func (b *bench) rawQueue() (v float64) {
	messages := b.messagesLogged(loggedMessages)
	b.pebbleDB(func(db *pebble.DB) {
		sync := func(c commit) {
			batch := c.batch(db)
			check(batch.Commit(pebble.Sync))
			batch.Close()
		}
		v = b.messageLoad(messages, sync, sync)
	})
	return v
}

// rawQueuePipelined commits them from one goroutine, with up to depth batches that wait for the
// log. Of the rows it leaves out those that mark the queue as not empty, which messages that come
// while others wait do not write.
func (b *bench) rawQueuePipelined(depth int) (v float64) {
	messages := slices.Clone(b.messagesLogged(loggedMessages))
	for i := range messages {
		m := &messages[i]
		m.enqueue, m.handle = m.enqueue.without(keyspace.RowWake), m.handle.without(keyspace.RowWake)
	}
	b.pebbleDB(func(db *pebble.DB) {
		waiting := make(chan *pebble.Batch, depth)
		var syncs sync.WaitGroup
		syncs.Go(func() {
			for batch := range waiting {
				check(batch.SyncWait())
				batch.Close()
			}
		})
		apply := func(c commit) {
			batch := c.batch(db)
			check(db.ApplyNoSyncWait(batch, pebble.Sync))
			waiting <- batch
		}
		v = b.loadUntil(1, func(_, i int) {
			m := &messages[i%len(messages)]
			apply(m.enqueue)
			apply(m.handle)
		}, func() {
			close(waiting)
			syncs.Wait()
		})
	})
	return v
}

// messageLoad returns how many messages a second are enqueued by one goroutine and handled by
// another.
func (b *bench) messageLoad(messages []messageCommits, enqueue, handle func(commit)) float64 {
	enqueued := make(chan int, 1<<16)
	var handler sync.WaitGroup
	handler.Go(func() {
		for i := range enqueued {
			handle(messages[i].handle)
		}
	})
	return b.loadUntil(1, func(_, i int) {
		i %= len(messages)
		enqueue(messages[i].enqueue)
		enqueued <- i
	}, func() {
		close(enqueued)
		handler.Wait()
	})
}
