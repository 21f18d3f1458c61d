package codebolt_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/codebolt"
)

// follow reads the events behind a position in answers of up to limit events of the log, up to the end of the log. Only events
// of Codebolt count.
func (s *store) follow(after uint64, limit int) (sequences []uint64, texts []string) {
	s.T.Helper()
	var events codebolt.Events
	for next := after; ; {
		var out kv.FeedOutput
		must(s.T, json.Unmarshal([]byte(s.Call("kv.feed", fmt.Sprintf(`{"prefixes":[["cb"]],"after":%d,"limit":%d}`, next, limit))), &out))
		for _, m := range events.Read(&out) {
			text, err := json.Marshal(m.Payload)
			must(s.T, err)
			if m.Type != "kvStore:position" {
				sequences, texts = append(sequences, m.Sequence), append(texts, m.Type+" "+string(text))
			}
		}
		if next == out.Next && !events.Pending() {
			return sequences, texts
		}
		next = out.Next
	}
}

// A namespace of many records, and an instance of many namespaces, are one event each, however the log is read and from wherever.
func TestEventsAreResumedWithoutLossOrDoubles(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":["cb"],"log":true}`)
	id := s.instance("one")
	s.set(id, "m", "k", `"v"`)
	var b strings.Builder
	for i := range 250 {
		fmt.Fprintf(&b, `,{"op":"put","key":["cb",%q,"n","k%03d"],"value":%d}`, id, i, i)
	}
	s.Call("kv.commit", `{"mutations":[`+b.String()[1:]+`]}`)
	s.exactly(`{"deletedCount":250}`, "DELETE", "namespace/"+id+"/n", "")
	s.want(200, "", "PUT", "instances/"+id, `{"description":"d"}`) // in the same millisecond, maybe
	s.want(200, "", "PUT", "instances/"+id, `{"name":"two"}`)
	s.set(id, "n", "a", `null`)
	s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/n/a", "")
	s.exactly(`{"deletedCount":0}`, "DELETE", "namespace/"+id+"/n", "")
	s.set(id, "o", "b", `1`)
	s.exactly(`{"deleted":true}`, "DELETE", "instances/"+id, "")

	sequences, texts := s.follow(0, 1000)
	var short []string
	for _, text := range texts {
		if !strings.Contains(text, `"key":"k`) {
			short = append(short, strings.ReplaceAll(masked(text), `"instanceId":"ID","namespace":`, ""))
		}
	}
	want := []string{
		`kvStore:instance-created {"id":"ID","name":"one","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:namespace-cleared {"n"}`,
		`kvStore:instance-updated {"id":"ID","name":"one","description":"d","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:instance-updated {"id":"ID","name":"two","description":"d","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:record-set {"n","key":"a","value":null}`,
		`kvStore:record-deleted {"n","key":"a"}`,
		`kvStore:record-set {"o","key":"b","value":1}`,
		`kvStore:instance-deleted "ID"`,
	}
	errorIf(t, !slices.Equal(short, want) || len(texts) != len(want)+1+250,
		"%d events, %s", len(texts), strings.Join(short, "\n"))
	for _, limit := range []int{1, 7, 100, 249, 250, 251} {
		if got, same := s.follow(0, limit); !slices.Equal(got, sequences) || !slices.Equal(same, texts) {
			t.Errorf("limit %d: %d events, not %d", limit, len(got), len(sequences))
		}
	}
	for i, sequence := range sequences {
		if i > 3 && i < 250 {
			continue
		}
		if got, rest := s.follow(sequence, 100); !slices.Equal(got, sequences[i+1:]) || !slices.Equal(rest, texts[i+1:]) {
			t.Errorf("behind event %d: %d events, not %d", i, len(got), len(sequences)-i-1)
		}
	}
}

// What removes the keys below one record, or a range of them, is told record by record.
func TestARangeOfRecordsIsNoNamespace(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":["cb"],"log":true}`)
	id := s.instance("one")
	for _, key := range []string{"a", "b", "c"} {
		s.set(id, "n", key, `1`)
	}
	sequences, _ := s.follow(0, 100)
	s.Call("kv.commit", fmt.Sprintf(`{"mutations":[{"op":"delete_range","prefix":["cb",%q,"n","a"]}]}`, id))
	s.Call("kv.commit", fmt.Sprintf(`{"mutations":[{"op":"delete_range","start":["cb",%q,"n","b"],"end":["cb",%q,"o"]}]}`, id, id))
	_, texts := s.follow(sequences[len(sequences)-1], 100)
	var want []string
	for _, key := range []string{"a", "b", "c"} {
		want = append(want, fmt.Sprintf(`kvStore:record-deleted {"instanceId":%q,"namespace":"n","key":%q}`, id, key))
	}
	errorIf(t, !slices.Equal(texts, want), "%s", strings.Join(texts, "\n"))
}

func FuzzEvents(f *testing.F) {
	f.Add(`{"events":[{"sequence":1,"op":"delete","cause":"delete_range","key":["cb","I"],"range":{"prefix":["cb"]}},{"sequence":2,"op":"put","cause":"set","key":["cb"],"value":1}],"next":2,"life":"x"}`)
	f.Add(`{"events":[{"sequence":1,"op":"put","cause":"set","key":["cb","I"],"value":{"name":7,"createdAt":[]}}],"next":9,"gap":{"first":1}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		var out kv.FeedOutput
		if json.Unmarshal([]byte(answer), &out) != nil || slices.ContainsFunc(out.Events, func(e kv.Event) bool { return len(e.Key) == 0 }) {
			return
		}
		var events codebolt.Events
		for range 2 {
			_, err := json.Marshal(events.Read(&out))
			fatalIf(t, err != nil, "%v", err)
		}
	})
}
