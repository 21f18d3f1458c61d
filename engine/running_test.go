package engine

import "testing"

// A store tells whether the node before ended in order; a store that was only looked at does not change that.
func TestMarkRunningTellsAnUncleanEnd(t *testing.T) {
	o := small(Options{})
	run := func(want bool, stop bool) {
		t.Helper()
		s := mustOpen(t, o)
		unclean, err := s.MarkRunning()
		if err != nil || unclean != want {
			t.Fatalf("unclean %v, %v, want %v", unclean, err, want)
		}
		if stop {
			if err := s.MarkStopped(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run(false, true)
	run(false, false)
	if err := mustOpen(t, o).Close(); err != nil { // a tool
		t.Fatal(err)
	}
	run(true, false)
	run(true, true)
	run(false, true)
}

// Notes are kept under their names, and are no other metadata of the store.
func TestNotesAreKept(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	if err := s.SetNote("running", []byte("far")); err != nil {
		t.Fatal(err)
	}
	if unclean, err := s.MarkRunning(); err != nil || unclean {
		t.Fatal(unclean, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	if note, err := s.Note("running"); string(note) != "far" || err != nil {
		t.Errorf("%q, %v", note, err)
	}
	if note, err := s.Note("other"); note != nil || err != nil {
		t.Errorf("%q, %v", note, err)
	}
}
