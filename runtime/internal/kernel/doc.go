// Package kernel decides which actor runs when. It knows no capability of actors: those are the
// parts, see [Part]. It hosts behaviors over one engine store: it wakes actors on demand, runs
// their turns one at a time, makes one commit of the writes of a turn, holds every reply back until
// the commit that it depends on is durable, fires alarms, delivers messages between actors, and
// puts idle actors to sleep.
//
// # The life of a call
//
// A call comes from package call. It finds or creates the [Actor] of its address in the directory
// of awake actors and joins its mailbox. If nobody runs the actor, a goroutine is started for it;
// it takes everything that waits, runs it turn by turn into one write set, and commits the write
// set as one batch. The engine's gate calls back when the batch is durable, in commit order; only
// then replies, events and messages leave. No goroutine is parked for an actor that has nothing to
// do.
//
// # Sharing a commit
//
// Turns that wait together share a batch. Each keeps its own version and can be dropped alone until
// the batch is applied. A turn that is about to block (it calls another actor, or asks its context
// for a Done channel) first commits the turns before it, so that no reply waits for the slow turn
// of another caller, and so that a call chain can never wait for its own uncommitted reply.
//
// # Beside the turns
//
// A part may have goroutines beside an actor, such as its tasks. They enter turns of their own
// through the mailbox, and end with the core. What operators do to an actor is a built-in method
// like any other (a [Procedure]), most of them in the part admin.
//
// # Lock order
//
// patrol.Patrol.mu, Actor.Mu, task.crew.mu, directory.shard.mu, view.Box.mu, mail.sender.mu,
// event.Hub.mu, then event.Subscription.Mu or conn.LiveConnection.mu, waitgraph.Graph.mu,
// park.Lot.mu. A goroutine that holds one of them takes only locks to the right of it. Turn.Mu is
// taken by handlers' goroutines and may be held while any of the others is taken. Gate callbacks
// take any of them but hold none on entry, and never block on anything else.
//
// # Packages below
//
// What stands alone is in packages below this one: they import neither the kernel nor a part.
package kernel
