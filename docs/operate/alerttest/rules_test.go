package alerttest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// step is the time between two scrapes.
const step = time.Minute

// rules returns the alert rules by name.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, faults := rulefmt.ParseFile("../alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, err := range faults {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	all := make(map[string]rulefmt.Rule)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if _, twice := all[r.Alert]; twice || r.Alert == "" {
				t.Errorf("the rule %q is unnamed, or there twice", r.Alert)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s has no summary, description or severity", r.Alert)
			}
			all[r.Alert] = r
		}
	}
	return all
}

// fires reports whether a rule fires in a store that has so many scrapes: whether its condition
// holds for a series for as long as the rule demands.
func fires(t *testing.T, r rulefmt.Rule, store storage.Queryable, scrapes int) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{Timeout: time.Minute, MaxSamples: 1_000_000, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	since := make(map[string]time.Time)
	for i := range scrapes {
		at := time.Unix(0, 0).Add(time.Duration(i) * step)
		q, err := engine.NewInstantQuery(t.Context(), store, nil, r.Expr, at)
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		result := q.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		pending := make(map[string]time.Time)
		for _, s := range vector {
			key := s.Metric.String()
			began, ok := since[key]
			if !ok {
				began = at
			}
			if at.Sub(began) >= time.Duration(r.For) {
				return true
			}
			pending[key] = began
		}
		since = pending
		q.Close()
	}
	return false
}

// load makes a store of series in the notation of promtool, scraped once a step. It is a list: the
// store of Prometheus needs the libraries of three clouds, which take minutes to compile.
func load(t *testing.T, text string) storage.Queryable {
	t.Helper()
	var all []promql.Series
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s := promql.Series{Metric: name}
		for i, v := range values {
			if !v.Omitted {
				s.Floats = append(s.Floats, promql.FPoint{T: int64(i) * step.Milliseconds(), F: v.Value})
			}
		}
		all = append(all, s)
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &list{at: -1}
		for _, s := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
				found.series = append(found.series, s)
			}
		}
		slices.SortFunc(found.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
		return found
	}}}
}

// A list is a set of series.
type list struct {
	series []promql.Series
	at     int
}

func (l *list) Next() bool                        { l.at++; return l.at < len(l.series) }
func (l *list) At() storage.Series                { return promql.NewStorageSeries(l.series[l.at]) }
func (l *list) Err() error                        { return nil }
func (l *list) Warnings() annotations.Annotations { return nil }

const instance = `job="cairn",instance="a"`

// TestEachRuleFiresInItsSituation has the samples of a situation for each rule, and of one that
// looks like it and is none.
func TestEachRuleFiresInItsSituation(t *testing.T) {
	const still, rising = "0x90", "0x20 1+1x69"
	counter := func(name, more string) [2]string {
		return [2]string{fmt.Sprintf("  %s{%s%s} %s", name, instance, more, rising), fmt.Sprintf("  %s{%s%s} 5x90", name, instance, more)}
	}
	gauge := func(name, more, ill, well string) [2]string {
		return [2]string{fmt.Sprintf("  %s{%s%s} %s", name, instance, more, ill), fmt.Sprintf("  %s{%s%s} %s", name, instance, more, well)}
	}
	// histogram has observations between two bounds: in the situation above the first one, else
	// below.
	histogram := func(name, more, low, high string) [2]string {
		series := func(first string) string {
			bucket := func(le, values string) string {
				return fmt.Sprintf("  %s_bucket{%s%s,le=%q} %s\n", name, instance, more, le, values)
			}
			return bucket(low, first) + bucket(high, "0+60x90") + bucket("+Inf", "0+60x90")
		}
		return [2]string{series(still), series("0+60x90")}
	}
	both := func(a, b [2]string) [2]string { return [2]string{a[0] + "\n" + b[0], a[1] + "\n" + b[1]} }
	budget := func(part string) [2]string {
		return gauge("cairn_memory_budget_bytes", `,part="`+part+`"`, "100x90", "100x90")
	}

	situations := map[string][2]string{
		"CairnNotWritable":         gauge("cairn_store_writable", "", "1x10 0x80", "1x90"),
		"CairnDiskNearlyFull":      both(gauge("cairn_store_free_bytes", "", "300x90", "500x90"), gauge("cairn_store_free_min_bytes", "", "100x90", "100x90")),
		"CairnSyncSlow":            histogram("cairn_store_sync_seconds", "", "0.05", "0.5"),
		"CairnWritesStalled":       gauge("cairn_store_stall_seconds_total", "", "0+6x90", still),
		"CairnCompactionsBehind":   gauge("cairn_store_compaction_debt_bytes", "", "5e9+1e8x150", "9e9-1e7x150"),
		"CairnCommitsRefused":      counter("cairn_commits_refused_total", ""),
		"CairnActorsFailed":        gauge("cairn_actors_failed", "", "0x10 2x80", still),
		"CairnWakesFail":           counter("cairn_wake_failures_total", `,type="room"`),
		"CairnTurnsAbandoned":      counter("cairn_turns_abandoned_total", ""),
		"CairnTasksAbandoned":      counter("cairn_tasks_abandoned_total", ""),
		"CairnOverloaded":          counter("cairn_overloaded_total", `,type="room"`),
		"CairnMailboxesNearlyFull": both(gauge("cairn_mailbox_bytes", "", "85x90", "60x90"), budget("mailboxes")),
		"CairnMailboxSlow":         histogram("cairn_mailbox_seconds", `,type="room"`, "0.5", "4"),
		"CairnAwakeMemoryFull":     both(gauge("cairn_actors_awake_bytes", "", "99x90", "80x90"), budget("actors")),
		"CairnAlarmsLate":          histogram("cairn_alarm_lag_seconds", "", "50", "200"),
		"CairnQueuesBehind":        gauge("cairn_queue_oldest_seconds", `,type="room"`, "0+60x90", "0x30 500x60"),
		"CairnDeadLetters":         counter("cairn_queue_dead_total", ""),
		"CairnSendsFailed":         counter("cairn_sends_failed_total", ""),
		"CairnWorkflowsPaused":     counter("cairn_workflow_paused_total", ""),
		"CairnOutboxLag":           gauge("cairn_outbox_lag_seconds", "", "0+20x90", "30x90"),
		"CairnNATSAway":            gauge("cairn_nats_connected", "", "1x10 0x80", "1x10 0x3 1x80"),
		"CairnOutboxFull":          counter("cairn_nats_refused_total", ""),
		"CairnGatewayPanics":       counter("cairn_http_panics_total", ""),
	}
	all := rules(t)
	for name := range situations {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no rule %s", name)
		}
	}
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			series, ok := situations[name]
			if !ok {
				t.Fatal("the test has no situation for the rule")
			}
			if !fires(t, r, load(t, series[0]), 151) {
				t.Error("the rule does not fire")
			}
			if fires(t, r, load(t, series[1]), 151) {
				t.Error("the rule fires though nothing is wrong")
			}
		})
	}
}

// TestMetricsOfRulesAndDashboardExist compares the names with the page that a test of the command
// holds to /metrics.
func TestMetricsOfRulesAndDashboardExist(t *testing.T) {
	page, err := os.ReadFile("../monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"process_resident_memory_bytes": true} // of every Go program
	for _, m := range regexp.MustCompile("`(cairn_[a-z_]+)`(?: \\| (\\w+)|, a (\\w+))").FindAllStringSubmatch(string(page), -1) {
		if known[m[1]] = true; m[2]+m[3] == "histogram" {
			known[m[1]+"_bucket"] = true
		}
	}
	expressions := make(map[string]string)
	for name, r := range rules(t) {
		expressions[name] = r.Expr
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	raw, err := os.ReadFile("../grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			expressions[fmt.Sprintf("%s[%d]", p.Title, i)] = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
		}
	}
	if len(expressions) < 60 {
		t.Errorf("only %d expressions", len(expressions))
	}
	for where, text := range expressions {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		for _, selectors := range parser.ExtractSelectors(e) {
			for _, m := range selectors {
				if m.Name == model.MetricNameLabel && !known[m.Value] {
					t.Errorf("%s uses %s, which monitor.md does not list", where, m.Value)
				}
			}
		}
	}
}
