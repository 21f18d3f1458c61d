// Package queuerows keeps the durable queues of one actor as rows of its keyspace. Its functions
// read and write rows and nothing else: there is no goroutine, no clock and no lock here, so that a
// turn which is rolled back leaves nothing.
//
// A [Set] is the queues as one turn changes them. It is made for the turn, holds the counts of the
// queues that the turn touches, and writes them in [Set.Flush], once, before the commit. Between
// two calls of Flush the rows alone do not tell the counts; nothing else may change queues of the
// actor meanwhile. A method that returns an error of the engine may have done its work in part: the
// Set is then broken, every later call and Flush return that error, and so the turn fails. An error
// of package host about the arguments changed nothing, and the turn may go on.
//
// # States
//
//	                     +--------------------- pause is over ---------------------+
//	                     v                                                         |
//	Send ----------> pending -- Receive --> locked -- Nack, or the lock expires --> delayed <-- Send with a delay
//	                  |  |  ^                 |                                      |
//	            Done  |  |  | Requeue         | Ack                                  |
//	                  v  |  |                 v                                      |
//	                gone |  |               gone                                     |
//	                     v  |                                                        |
//	                    dead <---- attempts used up, time-to-live over, skipped -----+
//
// The actor's own handler takes a message with Next and Done in one turn. It needs no lock, because
// nothing else can take the message. It counts an attempt when it calls Fail; a worker's attempt
// counts when it receives the message, so a worker that dies uses up attempts like one that fails.
//
// # Rows
//
//	05 message            the record of message.go, whatever its state but dead
//	06 metadata           next id, and how many messages the actor's queues hold
//	17 (queue, -priority, id)          pending messages, in the order of delivery
//	18 (queue, due, id)                delayed messages
//	18 (queue/locked, due, id)         locked messages, by the end of the lock
//	18 (queue/ttl, due, id)            pending messages with a time-to-live, by its end
//	18 (queue/dead, due, id)           dead letters, by their removal time
//	19 (queue)            the counts of counts.go
//	1a (queue, id)        dead letter, the same record
//	1b (queue, dedup id)  id of the message that was sent with it; expires
//	1c id                 result of a message whose sender wants it; expires
//
// No name of a queue has a slash in it, so the indexes of kind 18 keep apart. They are four because
// entries leave them in different orders; see front.
//
// # Claims
//
//  1. Each message has exactly the index entries that its state asks for, and each entry a message
//     in that state.
//  2. Counts are exact: they are the number of entries of each index, and change with them.
//  3. The cost of receiving does not depend on how many messages wait or were consumed: the counts
//     have the beginning of each index, so no search walks over deleted entries.
//  4. A queue has one row in the wake index, at the first time at which something is due in it, and
//     none if nothing is.
//  5. A batch is done as a whole or not at all.
package queuerows
