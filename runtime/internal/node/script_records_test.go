package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
)

func TestAuditScripts(t *testing.T) { runScripts(t, "audit") }
func TestTokenScripts(t *testing.T) { runScripts(t, "tokens") }
func TestTraceScripts(t *testing.T) { runScripts(t, "traces") }
func TestUsageScripts(t *testing.T) { runScripts(t, "usage") }

// A ledger is what a scenario remembers for the commands below.
type ledger struct {
	tokens map[string]token.CreateOutput
	ids    map[string]string // numbers of the ids of traces and spans
	from   string            // the traceparent of calls, if any
	tails  map[string]trace.Tail
}

// record runs a command about what is recorded of actors: the audit log, tokens, traces and usage.
func (s *scene) record(line string, w []string, rest func(n int) string) string {
	switch w[0] {
	case "operate": // operate ACTOR METHOD INPUT: as an operator
		reply, err := s.stage().operate(w[1], w[2], rest(min(3, len(strings.Fields(line)))))
		if err != nil {
			return result(w[2], err)
		}
		return strings.TrimSuffix(w[2]+": "+string(reply.Output), ": ")
	case "audit":
		return s.audit(w[1])
	case "token": // token NAME INPUT: makes one of actor "a"
		reply, err := s.stage().operate("a", host.TokenCreate, rest(2))
		var out token.CreateOutput
		if err == nil {
			err = json.Unmarshal(reply.Output, &out)
			s.tokens = with(s.tokens, w[1], out)
		}
		return result("token", err)
	case "revoke":
		return s.command(fmt.Sprintf("operate a %s {\"id\":%q}", host.TokenRevoke, s.tokens[w[1]].ID))
	case "tokens": // their names
		var out token.ListOutput
		s.stage().mustVerb("a", host.TokenList, nil, &out)
		names := []string{}
		for _, one := range out.Tokens {
			for name, made := range s.tokens {
				if made.ID == one.ID {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		return fmt.Sprintf("%d tokens: %v", len(out.Tokens), names)
	case "as": // as NAME METHOD INPUT: calls actor "a" with a token
		out, err := s.stage().as(s.tokens[w[1]].Text, w[2], rest(3))
		if err != nil {
			return result(w[2], err)
		}
		return w[2] + ": " + out
	case "traced", "untraced": // the rest is a command whose caller has a trace that is recorded, or is not
		s.from = map[string]string{"traced": sampledFrom, "untraced": unsampledFrom}[w[0]]
		defer func() { s.from = "" }()
		return s.command(rest(1))
	case "request": // request ACTOR NAME: one over HTTP ends, whose caller has a trace that is recorded
		client := host.ParseSpan(sampledFrom)
		s.stage().EndRequest(addr(w[1]), "http", w[2], s.g.BeginRequest("p", client), client, time.Now(), nil)
	case "spans": // spans ACTOR NAMES: the ones whose names begin so, each below its parent
		return s.spans(w[1], w[2:])
	case "tail": // tail NAME ACTOR INPUT: follows the spans of an actor
		var in trace.FollowInput
		if err := json.Unmarshal([]byte(rest(3)), &in); err != nil {
			s.fatal("%v", err)
		}
		if last := s.tails[w[1]]; in.Life == "again" { // the life of the tail before
			in.Life = last.Life()
		}
		tail, err := s.stage().FollowTraces(s.t.Context(), addr(w[2]), in)
		if err != nil {
			return result("tail", err)
		}
		s.t.Cleanup(tail.Close)
		s.tails = with(s.tails, w[1], tail)
	case "drain": // what a tail has by now, and why it has nothing else
		news, err := drain(s.tails[w[1]])
		if host.CodeOf(err) == host.DeadlineExceeded {
			err = nil
		}
		return fmt.Sprintf("%s has %q, missed %d%s", w[1], spanNames(news.Spans), news.Missed, result(", then", err))
	case "top": // top BY LIMIT
		synctest.Wait()
		out, err := s.stage().Top(usage.TopQuery{By: usage.Measure(w[1]), Limit: s.number(w[2])})
		var keys []string
		for _, a := range out.Actors {
			keys = append(keys, a.Key...)
		}
		return fmt.Sprintf("top by %s: %v%s", w[1], keys, result(", then", err))
	case "usage":
		return s.usage(w[1])
	}
	return ""
}

// observe is a step that writes a line to the log, or begins spans in the current one and gives that an attribute.
func (s *scene) observe(x *player, w []string) {
	if w[0] == "tell" {
		x.read.Logger().Info(w[1])
		return
	}
	ctx := context.Context(x.task)
	if x.read != nil {
		ctx = x.read
	}
	span := oteltrace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("plan", w[1]))
	shop := span.TracerProvider().Tracer("shop")
	own, outer := shop.Start(ctx, "outer")
	_, inner := shop.Start(own, "inner")
	inner.End()
	outer.End()
}

// with puts a value into a map, which it makes if there is none.
func with[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = v
	return m
}

func (s *scene) audit(key string) string {
	all := []string{"audit:"}
	for _, r := range s.stage().records(key) {
		text := fmt.Sprintf("  %s of version %d by %s over %s", r.Verb, r.Version, r.Principal, r.Channel)
		if r.Reason != "" {
			text += fmt.Sprintf(", %q", r.Reason)
		}
		for _, x := range []struct {
			name string
			json host.Raw
		}{{"input", r.Input}, {"before", r.Before}, {"after", r.After}} {
			if x.json != nil {
				text += fmt.Sprintf("; %s %s", x.name, x.json)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func (s *scene) usage(key string) string {
	synctest.Wait() // a reply may come before its commit is counted
	var out usage.GetOutput
	if err := s.stage().verb(key, host.UsageGet, usage.GetInput{}, &out); err != nil {
		return result("usage", err)
	}
	var all []string
	for _, d := range out.Days {
		all = append(all, fmt.Sprintf("%s: %d calls, %d turns, %d us, %d bytes are stored, %d sent",
			d.Day, d.Calls, d.Turns, d.HandlerUS, d.BytesStored, d.BytesSent))
	}
	return strings.Join(all, "\n")
}

// spans prints the spans of an actor as a tree. Each has a number from where it was shown first.
func (s *scene) spans(key string, names []string) string {
	var out trace.ReadOutput
	if err := s.stage().verb(key, host.TraceRead, nil, &out); err != nil {
		return result("spans", err)
	}
	all := slices.DeleteFunc(out.Spans, func(x trace.Span) bool {
		begins := func(name string) bool { return strings.HasPrefix(x.Name, name) }
		return len(names) > 0 && !slices.ContainsFunc(names, begins)
	})
	slices.SortStableFunc(all, func(a, b trace.Span) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		version := func(x trace.Span) float64 { v, _ := x.Attributes["cairn.version"].(float64); return v }
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(version(a), version(b)))
	})
	within := make(map[string]bool)
	for _, x := range all {
		within[x.SpanID] = true
	}
	lines := []string{fmt.Sprintf("%d spans", len(all))}
	var show func(x trace.Span, indent string)
	show = func(x trace.Span, indent string) {
		lines = append(lines, indent+s.span(x, within))
		for _, y := range all {
			if y.ParentID == x.SpanID {
				show(y, indent+"  ")
			}
		}
	}
	for _, x := range all {
		if !within[x.ParentID] {
			show(x, "  ")
		}
	}
	return strings.Join(lines, "\n")
}

func (s *scene) span(x trace.Span, within map[string]bool) string {
	text := fmt.Sprintf("%s %s %s", s.nameOf(x.SpanID), x.Kind, x.Name)
	if !within[x.ParentID] {
		text += " of " + s.nameOf(x.TraceID)
		if x.ParentID != "" {
			text += " from " + s.nameOf(x.ParentID)
		}
	}
	if x.Scope != "" {
		text += " in " + x.Scope
	}
	if x.Remote {
		text += ", remote"
	}
	for _, l := range x.Links {
		text += ", linked to " + s.nameOf(l.SpanID)
	}
	if x.End == nil {
		text += ", open"
	} else if took := x.End.Sub(x.Start); took >= time.Millisecond {
		text += fmt.Sprintf(", %s", took)
	}
	if x.Status != "" {
		text += ", " + x.Status + " " + x.Message
	}
	if x.Attributes["cairn.work"] != nil { // how many turns come before depends on how they are scheduled
		delete(x.Attributes, "cairn.version")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Attributes)) {
		text += fmt.Sprintf(" %s=%v", name, x.Attributes[name])
	}
	return text
}

// nameOf stands for the id of a trace or span.
func (s *scene) nameOf(id string) string {
	if id == parentTrace || id == parentSpan {
		return "caller"
	}
	if s.ids[id] == "" {
		s.ids = with(s.ids, id, fmt.Sprintf("%c%d", map[int]byte{16: 's', 32: 't'}[len(id)], len(s.ids)+1))
	}
	return s.ids[id]
}

var traceparent = regexp.MustCompile(`00-([0-9a-f]{32})-([0-9a-f]{16})-`)

// numbered shows traceparents with the numbers of their trace and span.
func (s *scene) numbered(line string) string {
	return traceparent.ReplaceAllStringFunc(line, func(text string) string {
		ids := traceparent.FindStringSubmatch(text)
		return s.nameOf(ids[1]) + "-" + s.nameOf(ids[2]) + "-"
	})
}
