// Package journal has the rows of a run: their keys, names, entries and large values, and how these
// become bytes. It runs nothing.
package journal
