package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// A progress shows how far the import is: as a bar on a terminal, as a line now and then anywhere
// else.
type progress struct {
	out   io.Writer
	bar   bool
	total int

	start      int // where this run began
	done       int
	begun      time.Time
	shown      time.Time
	since      time.Time // when the live rate's measurement began
	sinceDone  int
	rate       float64
	rateKnown  bool
	everyShown time.Duration
}

// barWidth is in characters.
const barWidth = 30

func newProgress(out io.Writer, start, total int) *progress {
	now := time.Now()
	p := &progress{out: out, bar: isTerminal(out), total: total, start: start, begun: now, shown: now, since: now, done: start, sinceDone: start}
	p.everyShown = time.Second
	if p.bar {
		p.everyShown = 100 * time.Millisecond
	}
	return p
}

// update tells that done flights are imported, and shows it if the last time is long enough ago.
func (p *progress) update(done int) {
	now := time.Now()
	p.done = done
	if measured := now.Sub(p.since); measured >= time.Second || !p.rateKnown && measured > 0 {
		p.rate = float64(done-p.sinceDone) / measured.Seconds()
		if measured >= time.Second {
			p.rateKnown = true
			p.since, p.sinceDone = now, done
		}
	}
	if now.Sub(p.shown) < p.everyShown && !(p.bar && done == p.total) {
		return
	}
	p.shown = now
	figures := fmt.Sprintf("%s of %s flights, %s/s", grouped(int64(done)), grouped(int64(p.total)), grouped(int64(p.rate)))
	if !p.bar {
		fmt.Fprintf(p.out, "replaying: %s\n", figures)
		return
	}
	filled := barWidth * done / max(p.total, 1)
	// "\x1b[K" erases what a longer line left behind.
	fmt.Fprintf(p.out, "\r[%s%s] %3d %%  %s\x1b[K", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled),
		100*done/max(p.total, 1), figures)
}

// end says what the run did.
func (p *progress) end() {
	if p.bar {
		fmt.Fprintln(p.out)
	}
	took := max(time.Since(p.begun), time.Millisecond)
	n := p.done - p.start
	fmt.Fprintf(p.out, "replayed %s flights in %v: %s durable calls a second\n",
		grouped(int64(n)), took.Round(time.Millisecond), grouped(int64(float64(n)/took.Seconds())))
}

// isTerminal reports whether w is a device that shows characters, and one that understands escape
// sequences.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// grouped writes n with a comma between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	begin := 0
	if n < 0 {
		begin = 1
	}
	for i := len(s) - 3; i > begin; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
