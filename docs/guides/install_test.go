package guides_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAProgramOfOnesOwnFindsTheModule runs the commands of the README that make a module beside a
// clone. In place of running the program it looks up all packages that the program needs.
func TestAProgramOfOnesOwnFindsTheModule(t *testing.T) {
	var commands string
	for _, block := range blocks(t, "../../README.md", "sh") {
		if strings.Contains(block, "go mod init") {
			commands = block
		}
	}
	all, runs := strings.CutSuffix(commands, "go run .\n")
	if !runs {
		t.Fatalf("the README does not end a module's commands by running it:\n%s", commands)
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(clone, filepath.Join(dir, "cairn")); err != nil {
		t.Fatal(err)
	}
	got := command(t, dir, "bash", "-euc", all+"go list -deps .")
	for _, needed := range []string{"example.com/visits\n", "github.com/cairn-run/cairn/actor\n", "github.com/cairn-run/cairn/runtime\n"} {
		if !strings.Contains(got, needed) {
			t.Errorf("the program lacks %s", needed)
		}
	}
}
