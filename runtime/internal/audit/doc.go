// Package audit keeps the audit log of a node: a record of each operator's verb, in the commit that
// has its effect.
//
// A call of an operator's method has an [Entry]. The router makes it and puts it into the context
// of the call; the turn of the method writes it. What a verb changes beside the actor, its part
// tells the entry by Before and After.
package audit
