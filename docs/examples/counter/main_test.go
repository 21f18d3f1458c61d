package main

import (
	"os"
	"strings"
	"testing"
)

// TestREADMEShowsThisProgram keeps the program in the README the one that compiles: all of main.go but its doc comment.
func TestREADMEShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\npackage main\n")
	if want := "```go\npackage main\n" + code + "```\n"; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not contain\n%s", want)
	}
}
