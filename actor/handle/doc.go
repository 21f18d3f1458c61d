// Package handle has what callers and operators may do with the queues, streams, schedules,
// connections and workflows of one actor. A handle is made by the method Of of a contract value:
//
//	sent, err := tenants.Mail.Of(tenants.Tenants.Ref(node, "acme")).Send(ctx, letter)
//
// Turns of the actor itself use the methods of the contract values in package actor instead: these
// are part of the commit. A handle does nothing by itself, works through any node, and may be kept. A
// handle of a bad reference or name returns that error from each method. The errors are an
// [*host.Error], which package actor calls Error.
package handle
