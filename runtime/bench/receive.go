package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// How many messages the queues hold that workers receive from, and how many are received at a time
// where it is not one.
const (
	shortQueue   = 1_000
	longQueue    = 1_000_000
	receiveBatch = 100
)

// receiveTimes are the median times, in seconds, of receiving one message and acknowledging it, and
// of doing so with a batch of messages in two calls, and the processor time of each.
type receiveTimes struct{ one, batch, oneCPU, batchCPU float64 }

// receivedOne returns the median time of receiving and acknowledging one message.
func (b *bench) receivedOne(n int) float64 {
	v := b.received(n)
	b.cpu = v.oneCPU
	return v.one
}

// receivedBatch returns the median time of receiving and acknowledging a batch.
func (b *bench) receivedBatch(n int) float64 {
	v := b.received(n)
	b.cpu = v.batchCPU
	return v.batch
}

// received measures a worker at a queue that holds n messages throughout: each that is taken out is
// replaced before the next measurement. The store is closed and opened after the queue was filled,
// and has come to rest. Commits do not wait for the disk, whose time is the same for both and would
// hide what differs.
func (b *bench) received(n int) receiveTimes {
	return once(b, fmt.Sprint("receive ", n), func() (v receiveTimes) {
		b.filled(n, func(ref actor.Ref[depot], rt *runtime.Runtime) {
			half := &bench{time: b.time / 2}
			v.one = half.p50Before(func(int) { takeOne(ref) }, func() { stock(ref, 1) })
			v.oneCPU = half.cpu
			v.batch = half.p50Before(func(int) { takeBatch(rt, ref.Key(), receiveBatch) },
				func() { stock(ref, receiveBatch) })
			v.batchCPU = half.cpu
			holds(ref, n)
		})
		return v
	})
}

func takeOne(ref actor.Ref[depot]) {
	ctx := context.Background()
	d, err := pallets.Of(ref).Receive(ctx, handle.ReceiveConfig{})
	check(err)
	if len(d) != 1 {
		fatal(fmt.Errorf("%d messages were received, not one", len(d)))
	}
	check(d[0].Ack(ctx, actor.None{}))
}

// takeBatch receives messages with one call and acknowledges them with another.
func takeBatch(rt *runtime.Runtime, key []string, n int) {
	var got struct {
		Messages []struct {
			Receipt string `json:"receipt"`
		} `json:"messages"`
	}
	builtin(rt, key, host.QueueReceive, &host.QueueReceiveInput{Queue: "pallets", Limit: n}, &got)
	receipts := make([]string, len(got.Messages))
	for i := range receipts {
		receipts[i] = got.Messages[i].Receipt
	}
	var settled host.QueueSettleOutput
	builtin(rt, key, host.QueueAck, &host.QueueAckInput{Queue: "pallets", Receipts: receipts}, &settled)
	if settled.Settled != n {
		fatal(fmt.Errorf("%d messages were received and acknowledged, not %d", settled.Settled, n))
	}
}

// builtin calls a built-in method of a depot.
func builtin(rt *runtime.Runtime, key []string, method string, in, out any) {
	input, err := json.Marshal(in)
	check(err)
	reply, err := rt.Call(context.Background(), &host.Request{
		Address: host.Address{Type: depots.Name(), Key: key}, Method: method, Codec: host.JSON, Input: input,
	})
	check(err)
	check(json.Unmarshal(reply.Output, out))
}

// stock sends n messages for workers, in batches of at most a thousand.
func stock(ref actor.Ref[depot], n int) {
	for n > 0 {
		batch := make([]parcel, min(n, 1000))
		for i := range batch {
			batch[i] = parcel{N: int64(n - i), Label: parcelLabel}
		}
		_, err := pallets.Of(ref).SendAll(context.Background(), batch)
		check(err)
		n -= len(batch)
	}
}

// holds makes sure that the queue for workers holds n messages.
func holds(ref actor.Ref[depot], n int) {
	s, err := pallets.Of(ref).Stats(context.Background())
	check(err)
	if s.Pending != int64(n) || s.Processing != 0 {
		fatal(fmt.Errorf("the queue is to hold %d messages: %+v", n, s))
	}
}

// filled runs f with a node at rest whose queue for workers holds n messages. It fills the queue
// when it is first asked for it, and keeps the store for the next time.
func (b *bench) filled(n int, f func(actor.Ref[depot], *runtime.Runtime)) {
	o := runtime.Options{Actors: depotDefinition(func(int64) {}),
		Dir: filepath.Join(b.dir, fmt.Sprint("queue-", n)), NoSync: true}
	if _, err := os.Stat(o.Dir); os.IsNotExist(err) {
		b.node(o, func(rt *runtime.Runtime) { stock(depots.Ref(rt, "one"), n) })
	}
	b.node(o, func(rt *runtime.Runtime) {
		ref := depots.Ref(rt, "one")
		holds(ref, n)
		rest(rt)
		f(ref, rt)
	})
}

// rest waits until the store has nothing left to do: its files, and the compaction that it owes,
// stay as they are for half a second. A store may owe a little for ever.
func rest(rt *runtime.Runtime) {
	calm, size, debt := 0, -1.0, -1.0
	for calm < 25 {
		time.Sleep(20 * time.Millisecond)
		calm++
		if now, owed := gauge(rt, "cairn_store_disk_bytes"),
			gauge(rt, "cairn_store_compaction_debt_bytes"); now != size || owed != debt {
			calm, size, debt = 0, now, owed
		}
	}
}
