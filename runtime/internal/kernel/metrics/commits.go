package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// commits counts commits and their turns by actor type. The totals are sums, so that a commit is
// counted once. Of must not be called while it collects.
type commits struct{ types []*typeCommits }

type typeCommits struct {
	typ            string
	commits, turns atomic.Uint64
}

func (c *commits) of(typ string) *typeCommits {
	t := &typeCommits{typ: typ}
	c.types = append(c.types, t)
	return t
}

func commitDescs() (commits, turns, typeCommits, typeTurns *prometheus.Desc) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return desc("cairn_commits_total", "Commits: one atomic batch each."),
		desc("cairn_commit_turns_total", "Turns in those commits; divided by commits, how many share one."),
		desc("cairn_type_commits_total", "Commits by actor type.", "type"),
		desc("cairn_type_commit_turns_total", "Turns in those commits, by actor type.", "type")
}

// Describe implements prometheus.Collector.
func (c *commits) Describe(ch chan<- *prometheus.Desc) {
	a, b, d, e := commitDescs()
	for _, desc := range []*prometheus.Desc{a, b, d, e} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *commits) Collect(ch chan<- prometheus.Metric) {
	all, shared, byType, sharedByType := commitDescs()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	var commits, turns uint64
	for _, t := range c.types {
		n, k := t.commits.Load(), t.turns.Load()
		commits, turns = commits+n, turns+k
		counter(byType, n, t.typ)
		counter(sharedByType, k, t.typ)
	}
	counter(all, commits)
	counter(shared, turns)
}
