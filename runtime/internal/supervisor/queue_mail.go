package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/queue"
)

// Messages to queues of other actors are sent under the name of queue.send.

// checkQueueSend refuses what no queue of the type would ever take. That is found when it is sent, and not when the message
// is given up.
func checkQueueSend(target *actorType, input []byte) error {
	var in host.QueueSendInput
	if err := decodeInput(host.QueueSend, host.CBOR, input, &in); err != nil {
		return err
	}
	messages, q, err := target.enqueues(host.CBOR, &in)
	if err == nil {
		err = queue.Check(q, messages)
	}
	return err
}

// takeQueueSend puts into a queue what another actor has sent to it.
func takeQueueSend(t *turn, input []byte) error {
	var in host.QueueSendInput
	if err := decodeInput(host.QueueSend, host.CBOR, input, &in); err != nil {
		return err
	}
	_, err := queueSend(t.c, t, host.CBOR, &in)
	return err
}
