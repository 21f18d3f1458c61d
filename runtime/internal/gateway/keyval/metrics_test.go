package keyval_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// took replaces times, which differ from run to run.
func took(text string) string {
	text = regexp.MustCompile(`"avgLatencyMs":[0-9.e+-]+`).ReplaceAllString(text, `"avgLatencyMs":MS`)
	text = regexp.MustCompile(`(_sum\{.*\}) [0-9.e+-]+`).ReplaceAllString(text, "$1 MS")
	return regexp.MustCompile(`(_bucket\{.*le="[0-9]+"\}) [0-9]+`).ReplaceAllString(text, "$1 N")
}

func TestMetrics(t *testing.T) {
	s := open(t)
	s.exactly(`{"operations":{"operations":{"queue_ack":{"count":0,"errors":0},"queue_dlq":{"count":0,"errors":0},"queue_enqueue":{"count":0,"errors":0}},"totals":{"operations":0,"errors":0}},`+
		`"queue":{"pending":0,"processing":0,"dlq":0,"total":0},"storage":{"entries":0}}`, "GET", "metrics", "")
	s.put("a/1", `1`, "b/1", `2`)
	s.want(404, "", "GET", "keys/absent", "") // not an error
	s.want(400, "", "PUT", "keys/a", `{`)
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	settle := func(verb string) {
		var out struct{ Message struct{ ID string } }
		s.decode(s.want(200, "", "GET", "queue/poll", ""), &out)
		s.exactly(`{"ok":true}`, "POST", "queue/"+verb, `{"id":"`+out.Message.ID+`"}`)
	}
	settle("ack")
	s.want(200, "", "POST", "queue/enqueue", `{"value":1,"options":{"backoffSchedule":[]}}`)
	settle("nack")
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	const operations = `{"operations":{"operations":{"get":{"count":1,"errors":0,"avgLatencyMs":MS},"queue_ack":{"count":1,"errors":0,"avgLatencyMs":MS},` +
		`"queue_dlq":{"count":1,"errors":1},"queue_enqueue":{"count":3,"errors":0,"avgLatencyMs":MS},"queue_nack":{"count":1,"errors":0,"avgLatencyMs":MS},` +
		`"queue_poll":{"count":2,"errors":0,"avgLatencyMs":MS},"set":{"count":3,"errors":1,"avgLatencyMs":MS}},"totals":{"operations":12,"errors":2}},` +
		`"queue":{"pending":1,"processing":0,"dlq":1,"total":2},"storage":{"entries":2}}`
	same(t, took(strings.TrimSpace(s.want(200, "", "GET", "metrics", ""))), operations)
	w := s.Send("GET", "metrics/prometheus", "")
	if kind := w.Header().Get("Content-Type"); w.Code != 200 || kind != "text/plain; version=0.0.4" {
		t.Errorf("%d %s", w.Code, kind)
	}
	want := ""
	family := func(name, help, kind string, samples ...string) {
		want += "# HELP keyval_" + name + " " + help + "\n# TYPE keyval_" + name + " " + kind + "\n"
		for _, sample := range samples {
			want += "keyval_" + name + sample + "\n"
		}
	}
	family("operations_total", "Total operations by type", "counter", `{operation="get"} 1`,
		`{operation="queue_ack"} 1`, `{operation="queue_dlq"} 1`,
		`{operation="queue_enqueue"} 3`, `{operation="queue_nack"} 1`, `{operation="queue_poll"} 2`, `{operation="set"} 3`)
	family("operation_errors_total", "Total errors by operation type", "counter", `{operation="get"} 0`,
		`{operation="queue_ack"} 0`, `{operation="queue_dlq"} 1`,
		`{operation="queue_enqueue"} 0`, `{operation="queue_nack"} 0`, `{operation="queue_poll"} 0`, `{operation="set"} 1`)
	var times []string
	for i, name := range []string{"get", "queue_ack", "queue_enqueue", "queue_nack", "queue_poll", "set"} {
		for _, le := range []int{1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000} {
			times = append(times, fmt.Sprintf("_bucket{operation=%q,le=\"%d\"} N", name, le))
		}
		n := []int{1, 1, 3, 1, 2, 3}[i]
		times = append(times, fmt.Sprintf("_bucket{operation=%q,le=\"+Inf\"} %d", name, n),
			fmt.Sprintf("_sum{operation=%q} MS", name), fmt.Sprintf("_count{operation=%q} %d", name, n))
	}
	family("operation_duration_ms", "Duration of requests by operation type, in milliseconds", "histogram", times...)
	family("queue_pending", "Pending messages in queue", "gauge", " 1")
	family("queue_processing", "Messages being processed", "gauge", " 0")
	family("queue_dlq", "Messages in dead letter queue", "gauge", " 1")
	family("queue_total", "Total messages in queue", "gauge", " 2")
	family("entries_total", "Total entries in store", "gauge", " 2")
	same(t, took(w.Body.String()), want)
	s.want(400, "x", "GET", "metrics?x=1", "")
}

// Metrics are of one actor. Reading them writes nothing, and does not scan the store.
func TestMetricsCostLittle(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":[]}`)
	s.put("a/1", `1`, "b/1", `"xyz"`)
	before := len(s.Node.Requests())
	s.want(200, `"set":{"count":2,`, "GET", "metrics", "")
	s.want(200, `"storage":{"entries":2,"sizeBytes":`, "GET", "metrics", "")
	text := s.Send("GET", "metrics/prometheus", "").Body.String()
	errorIf(t, !strings.Contains(text, "\nkeyval_storage_bytes "), "%v", text)
	for _, r := range s.Node.Requests()[before:] {
		errorIf(t, r.Method != "kv.scopes" && r.Method != "queue.stats", "it calls %s", r.Method)
	}
	w := httptest.NewRecorder()
	s.Gateway.ServeHTTP(w, httptest.NewRequest("GET", "/actors/room/b/-/keyval/api/metrics", nil))
	errorIf(t, strings.Contains(w.Body.String(), `"set"`), "another actor: %s", w.Body)
}
