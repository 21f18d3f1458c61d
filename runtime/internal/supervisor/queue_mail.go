package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/queue"
)

// handleQueueMessages has messages to queues of other actors handled: those that are sent under the name of queue.send.
func handleQueueMessages(p *mailPart) {
	p.handle(host.QueueSend, messageHandler{
		// What the queue would never take is found when it is sent, and not when the message is given up.
		check: func(target *actorType, input []byte) error {
			var in host.QueueSendInput
			if err := decodeInput(host.QueueSend, host.CBOR, input, &in); err != nil {
				return err
			}
			messages, q, err := target.enqueues(host.CBOR, &in)
			if err == nil {
				err = queue.Check(q, messages)
			}
			return err
		},
		handle: func(t *turn, input []byte) error {
			var in host.QueueSendInput
			if err := decodeInput(host.QueueSend, host.CBOR, input, &in); err != nil {
				return err
			}
			_, err := queueSend(t.c, t, host.CBOR, &in)
			return err
		},
	})
}
