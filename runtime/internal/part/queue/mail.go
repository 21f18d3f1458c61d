package queue

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
)

// Messages to queues of other actors are sent under the name of queue.send.

// CheckSend refuses messages that no queue of the type would take. So a handler gets the error when
// it sends them, and not when they are given up.
func CheckSend(target *kernel.Type, input []byte) error {
	var in host.QueueSendInput
	if err := wire.Decode(host.QueueSend, host.CBOR, input, &in); err != nil {
		return err
	}
	messages, q, err := enqueues(target, host.CBOR, &in)
	if err == nil {
		err = queuerows.Check(q, messages)
	}
	return err
}

// TakeSend puts the messages that another actor sent into a queue.
func TakeSend(t *kernel.Turn, input []byte) error {
	var in host.QueueSendInput
	if err := wire.Decode(host.QueueSend, host.CBOR, input, &in); err != nil {
		return err
	}
	_, err := Send(t, host.CBOR, &in)
	return err
}

// Send does queue.send in a turn that does something else too. After an error the turn must be
// undone.
//
// REQUIRES: t.Mu, or no handler that runs.
func Send(t *kernel.Turn, codec host.Codec, in *host.QueueSendInput) (host.QueueSendOutput, error) {
	return queueSend(t.Core, t, codec, in)
}
