// Package codec encodes the values of contracts as CBOR and JSON, checks their Go types, and
// describes them as JSON Schema.
package codec
