// Package token has the tokens of an actor: secrets that allow their holders a part of what may be
// done with the actor's key-value store. A [Token] describes one, a [Grant] is what one allows, and
// the context of a request carries the grant to the code that must heed it.
package token
