// Package natspub is a node's side of NATS: it publishes what the actors' commits changed, and takes calls.
//
// The nouns: a change set is what one turn has to publish; the engine keeps it as one row of the outbox, written by the
// commit of that turn. A [Publisher] takes change sets from the node once they are durable, publishes each change
// as one message, and deletes the row when the server has all of them. [Subjects] names the subjects. An [Endpoint] is
// one actor type whose methods are served as a NATS micro service.
//
// Order: the messages of one actor arrive by version, and within a version by index. All of the package is built around
// that sentence; see the comment on [Publisher] for how.
package natspub
