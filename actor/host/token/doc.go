// Package token has the tokens of an actor: secrets that give their holders some rights to the
// actor's key-value store. A [Token] describes one, a [Grant] has its rights, and the context of a
// request carries the grant to the code that checks it.
package token
