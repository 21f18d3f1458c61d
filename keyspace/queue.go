package keyspace

import "strconv"

// QueueMessage is the key of a message in a queue of the actor: 05 and its id, a
// u64 that counts from 1. All named queues of an actor share the sequence.
type QueueMessage struct{ ID uint64 }

// AppendQueueMessage appends the key of a queue message.
func AppendQueueMessage(dst []byte, id uint64) []byte {
	return appendSequence(dst, KindQueueMessages, id)
}

// ParseQueueMessage returns the id of the message.
func ParseQueueMessage(key []byte) (uint64, error) { return parseSequence(key, KindQueueMessages, 1) }

// Kind returns [KindQueueMessages].
func (QueueMessage) Kind() Kind { return KindQueueMessages }

// Append appends the bytes of the key.
func (k QueueMessage) Append(dst []byte) []byte { return AppendQueueMessage(dst, k.ID) }

// String returns the form queue/258.
func (k QueueMessage) String() string { return "queue/" + strconv.FormatUint(k.ID, 10) }

func (QueueMessage) key() {}

// QueueMetadata is the key of what all queues of the actor share: 06.
type QueueMetadata struct{}

// AppendQueueMetadata appends the key of the queue metadata.
func AppendQueueMetadata(dst []byte) []byte { return append(dst, byte(KindQueueMetadata)) }

// ParseQueueMetadata checks that key is that of the queue metadata.
func ParseQueueMetadata(key []byte) error { return parseExact(key, KindQueueMetadata) }

// Kind returns [KindQueueMetadata].
func (QueueMetadata) Kind() Kind { return KindQueueMetadata }

// Append appends the bytes of the key.
func (QueueMetadata) Append(dst []byte) []byte { return AppendQueueMetadata(dst) }

// String returns "queue-metadata".
func (QueueMetadata) String() string { return KindQueueMetadata.String() }

func (QueueMetadata) key() {}
