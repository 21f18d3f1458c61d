// Package handle calls the queues, streams, schedules, connections and workflow runs of one actor,
// for callers and operators. The method Of of a contract value returns a handle:
//
//	sent, err := tenants.Mail.Of(tenants.Tenants.Ref(node, "acme")).Send(ctx, letter)
//
// Turns of the actor itself use the methods of the contract values in package actor. Those are part
// of the commit; each call of a handle is a request of its own. Making a handle does nothing to the
// actor. A handle works through any node and may be kept.
//
// Errors are an [*host.Error], which package actor calls Error. The code is InvalidArgument for a
// bad reference, name or option, and NotFound if there is no such actor. These calls create a
// missing actor instead: [Queue.Send], [Queue.SendAll], [Queue.Ask], [Schedule.Set],
// [Stream.Append], [Run.Start], [Run.Import] and [Run.Fork]. For [Queue.Receive] and [Queue.Work] a
// missing actor has an empty queue. Any call may fail with a code of the node, such as Unavailable,
// Overloaded or DeadlineExceeded. The comment of a method names its other codes.
package handle
