package keyval_test

import (
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	s := open(t)
	s.exactly(`{"operations":{"operations":{"queue_ack":{"count":0,"errors":0},"queue_dlq":{"count":0,"errors":0},"queue_enqueue":{"count":0,"errors":0}},"totals":{"operations":0,"errors":0}},`+
		`"queue":{"pending":0,"processing":0,"dlq":0,"total":0},"storage":{"entries":0}}`, "GET", "metrics", "")
	s.put("a/1", `1`, "b/1", `2`)
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	id, _ := s.poll()
	s.exactly(`{"ok":true}`, "POST", "queue/ack", `{"id":"`+id+`"}`)
	s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+s.fail()+`"}`)
	s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
	s.want(200, `"totals":{"operations":5,"errors":1}},"queue":{"pending":1,"processing":0,"dlq":1,"total":2},"storage":{"entries":2}`, "GET", "metrics", "")
	w := s.send("GET", "metrics/prometheus", "")
	if kind := w.Header().Get("Content-Type"); w.Code != 200 || kind != "text/plain; version=0.0.4" {
		t.Errorf("%d %s", w.Code, kind)
	}
	const want = `# HELP keyval_operations_total Total operations by type
# TYPE keyval_operations_total counter
keyval_operations_total{operation="queue_ack"} 1
keyval_operations_total{operation="queue_dlq"} 1
keyval_operations_total{operation="queue_enqueue"} 3
# HELP keyval_queue_pending Pending messages in queue
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
	if w.Body.String() != want {
		t.Error(w.Body)
	}
	s.want(400, "x", "GET", "metrics?x=1", "")
}

func TestB25WhatIsStoredIsNotScanned(t *testing.T) {
	s := open(t)
	s.call("kv.set_scope", `{"prefix":[]}`)
	s.put("a/1", `1`, "b/1", `"xyz"`)
	before := len(s.node.Requests())
	s.want(200, `"storage":{"entries":2,"sizeBytes":`, "GET", "metrics", "")
	if text := s.send("GET", "metrics/prometheus", "").Body.String(); !strings.Contains(text, "\nkeyval_storage_bytes ") {
		t.Error(text)
	}
	for _, r := range s.node.Requests()[before:] {
		if r.Method != "kv.scopes" && r.Method != "queue.stats" {
			t.Errorf("it calls %s", r.Method)
		}
	}
}
