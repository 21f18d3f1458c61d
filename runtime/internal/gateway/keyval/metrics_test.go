package keyval_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// took hides times, which are those of this run.
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
	s.want(404, "", "GET", "keys/absent", "") // which is no error
	s.want(400, "", "PUT", "keys/a", `{`)
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	id, _ := s.poll()
	s.exactly(`{"ok":true}`, "POST", "queue/ack", `{"id":"`+id+`"}`)
	s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+s.fail()+`"}`)
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	const operations = `{"operations":{"operations":{"get":{"count":1,"errors":0,"avgLatencyMs":MS},"queue_ack":{"count":1,"errors":0,"avgLatencyMs":MS},` +
		`"queue_dlq":{"count":1,"errors":1},"queue_enqueue":{"count":3,"errors":0,"avgLatencyMs":MS},"queue_nack":{"count":1,"errors":0,"avgLatencyMs":MS},` +
		`"queue_poll":{"count":2,"errors":0,"avgLatencyMs":MS},"set":{"count":3,"errors":1,"avgLatencyMs":MS}},"totals":{"operations":12,"errors":2}},` +
		`"queue":{"pending":1,"processing":0,"dlq":1,"total":2},"storage":{"entries":2}}`
	if got := took(strings.TrimSpace(s.want(200, "", "GET", "metrics", ""))); got != operations {
		t.Error(got)
	}
	w := s.send("GET", "metrics/prometheus", "")
	if kind := w.Header().Get("Content-Type"); w.Code != 200 || kind != "text/plain; version=0.0.4" {
		t.Errorf("%d %s", w.Code, kind)
	}
	want := `# HELP keyval_operations_total Total operations by type
# TYPE keyval_operations_total counter
keyval_operations_total{operation="get"} 1
keyval_operations_total{operation="queue_ack"} 1
keyval_operations_total{operation="queue_dlq"} 1
keyval_operations_total{operation="queue_enqueue"} 3
keyval_operations_total{operation="queue_nack"} 1
keyval_operations_total{operation="queue_poll"} 2
keyval_operations_total{operation="set"} 3
# HELP keyval_operation_errors_total Total errors by operation type
# TYPE keyval_operation_errors_total counter
keyval_operation_errors_total{operation="get"} 0
keyval_operation_errors_total{operation="queue_ack"} 0
keyval_operation_errors_total{operation="queue_dlq"} 1
keyval_operation_errors_total{operation="queue_enqueue"} 0
keyval_operation_errors_total{operation="queue_nack"} 0
keyval_operation_errors_total{operation="queue_poll"} 0
keyval_operation_errors_total{operation="set"} 1
# HELP keyval_operation_duration_ms Duration of requests by operation type, in milliseconds
# TYPE keyval_operation_duration_ms histogram
`
	for _, o := range []struct {
		name string
		n    int
	}{{"get", 1}, {"queue_ack", 1}, {"queue_enqueue", 3}, {"queue_nack", 1}, {"queue_poll", 2}, {"set", 3}} {
		for _, le := range []int{1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000} {
			want += fmt.Sprintf("keyval_operation_duration_ms_bucket{operation=%q,le=\"%d\"} N\n", o.name, le)
		}
		want += fmt.Sprintf("keyval_operation_duration_ms_bucket{operation=%q,le=\"+Inf\"} %d\n", o.name, o.n)
		want += fmt.Sprintf("keyval_operation_duration_ms_sum{operation=%q} MS\nkeyval_operation_duration_ms_count{operation=%q} %d\n", o.name, o.name, o.n)
	}
	want += `# HELP keyval_queue_pending Pending messages in queue
# TYPE keyval_queue_pending gauge
keyval_queue_pending 1
# HELP keyval_queue_processing Messages being processed
# TYPE keyval_queue_processing gauge
keyval_queue_processing 0
# HELP keyval_queue_dlq Messages in dead letter queue
# TYPE keyval_queue_dlq gauge
keyval_queue_dlq 1
# HELP keyval_queue_total Total messages in queue
# TYPE keyval_queue_total gauge
keyval_queue_total 2
# HELP keyval_entries_total Total entries in store
# TYPE keyval_entries_total gauge
keyval_entries_total 2
`
	if got := took(w.Body.String()); got != want {
		t.Error(got)
	}
	s.want(400, "x", "GET", "metrics?x=1", "")
}

// Metrics are of one actor. Reading them writes nothing, and does not scan what is stored.
func TestMetricsCostLittle(t *testing.T) {
	s := open(t)
	s.call("kv.set_scope", `{"prefix":[]}`)
	s.put("a/1", `1`, "b/1", `"xyz"`)
	before := len(s.node.Requests())
	s.want(200, `"set":{"count":2,`, "GET", "metrics", "")
	s.want(200, `"storage":{"entries":2,"sizeBytes":`, "GET", "metrics", "")
	if text := s.send("GET", "metrics/prometheus", "").Body.String(); !strings.Contains(text, "\nkeyval_storage_bytes ") {
		t.Error(text)
	}
	for _, r := range s.node.Requests()[before:] {
		if r.Method != "kv.scopes" && r.Method != "queue.stats" {
			t.Errorf("it calls %s", r.Method)
		}
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, httptest.NewRequest("GET", "/actors/room/b/-/keyval/api/metrics", nil))
	if strings.Contains(w.Body.String(), `"set"`) {
		t.Errorf("another actor: %s", w.Body)
	}
}
