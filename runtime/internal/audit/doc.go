// Package audit keeps the audit log of a node: a record of each operator's verb, in the commit that
// has its effect.
//
// A call of an operator's method has an [Entry]. The router makes it and puts it into the context
// of the call; the turn of the method writes it. The part of the method passes the entry other
// changes of the verb by Before and After.
package audit
