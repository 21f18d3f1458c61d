// Package natspub connects a node to NATS: it publishes the changes of the actors' commits, and
// serves calls.
//
// A change set holds the changes of one turn; the engine keeps it as one row of the outbox, written
// by the commit of that turn. A [Publisher] gets change sets from the node once they are durable,
// publishes each change as one message, and deletes the row when the server has all of them.
// [Subjects] builds the subjects. An [Endpoint] is an actor type whose methods are served as a NATS
// micro service.
//
// Order: the messages of one actor arrive by version, and within a version by index. The design of
// the package follows from that; see the comment on [Publisher].
package natspub
