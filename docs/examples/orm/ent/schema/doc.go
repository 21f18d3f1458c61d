// Package schema is what ent's code is generated from.
package schema
