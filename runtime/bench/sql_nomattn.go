//go:build !mattn

package main

// otherLibraries is empty unless the program is built with the tag mattn.
func otherLibraries() []library { return nil }
