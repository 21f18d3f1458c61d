package keyval_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// poll receives a message, and returns its id and the message with ID for it.
func (s *store) poll() (id, text string) {
	s.t.Helper()
	text = s.want(200, `{"message":`, "GET", "queue/poll", "")
	var out struct{ Message *struct{ ID string } }
	s.decode(text, &out)
	if out.Message == nil {
		return "", text
	}
	return out.Message.ID, strings.ReplaceAll(text, out.Message.ID, "ID")
}

// pull is poll for a message that must be there.
func (s *store) pull(want string) string {
	s.t.Helper()
	id, got := s.poll()
	if got != want {
		s.t.Fatalf("%s, not %s", got, want)
	}
	return id
}

const none = `{"message":null}`

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.pull(none)
		s.exactly(`{"pending":0,"processing":0,"dlq":0,"total":0}`, "GET", "queue/stats", "")
		s.exactly(`[]`, "GET", "queue/dlq", "")
		s.exactly(`{"deletedCount":0}`, "DELETE", "queue/dlq", "")
		s.want(404, "not found", "POST", "queue/ack", `{"id":"x"}`)

		s.exactly(`{"ok":true,"id":"1"}`, "POST", "queue/enqueue", `{"value":{"task":"a"}}`)
		s.exactly(`{"ok":true,"id":"2"}`, "POST", "queue/enqueue", `{"value":"b","options":{"delay":1500,"backoffSchedule":[100],"keysIfUndelivered":[["failed",7],["failed","b"]]}}`)
		s.exactly(`{"pending":2,"processing":0,"dlq":0,"total":2}`, "GET", "queue/stats", "")
		id := s.pull(`{"message":{"id":"ID","value":{"task":"a"},"attempts":1}}`)
		s.exactly(`{"pending":1,"processing":1,"dlq":0,"total":2}`, "GET", "queue/stats", "")
		s.pull(none)
		s.exactly(`{"ok":true}`, "POST", "queue/ack", `{"id":"`+id+`"}`)
		for _, settled := range []string{"1", id} { // a message has no other id than its delivery
			s.want(404, "not found", "POST", "queue/ack", `{"id":"`+settled+`"}`)
			s.want(404, "not found", "POST", "queue/nack", `{"id":"`+settled+`"}`)
		}

		time.Sleep(1500 * time.Millisecond)
		id = s.pull(`{"message":{"id":"ID","value":"b","attempts":1}}`)
		s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+id+`"}`)
		s.pull(none)
		time.Sleep(100 * time.Millisecond)
		id = s.pull(`{"message":{"id":"ID","value":"b","attempts":2}}`)
		s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+id+`"}`)
		s.exactly(`{"pending":0,"processing":0,"dlq":1,"total":1}`, "GET", "queue/stats", "")
		if got := s.keys("failed"); got != `["failed","b"] ["failed",7]` {
			t.Error(got)
		}
		letter := s.want(200, `[{"id":"2","originalId":"2","value":"b","errorMessage":`, "GET", "queue/dlq?limit=5&offset=0", "")
		if !strings.Contains(letter, fmt.Sprintf(`"attempts":2,"originalCreatedAt":%d,"failedAt":%d}`, time.Now().UnixMilli()-1600, time.Now().UnixMilli())) {
			t.Error(letter)
		}
		s.exactly(strings.Trim(letter, "[]"), "GET", "queue/dlq/2", "")
		s.exactly(`[]`, "GET", "queue/dlq?offset=1", "")
		s.exactly(`{"ok":true,"newId":"2"}`, "POST", "queue/dlq/2/requeue", "")
		s.pull(`{"message":{"id":"ID","value":"b","attempts":1}}`)
		for _, verb := range []string{"GET", "DELETE"} {
			s.want(404, "Message not found in DLQ", verb, "queue/dlq/2", "")
			s.want(404, "Message not found in DLQ", verb, "queue/dlq/x", "")
		}
		s.want(404, "Message not found in DLQ", "POST", "queue/dlq/2/requeue", "")
		for range 3 {
			s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+s.fail()+`"}`)
		}
		s.exactly(`{"ok":true}`, "DELETE", "queue/dlq/3", "")
		if got := s.want(200, "", "GET", "queue/dlq?limit=1&offset=1", ""); !strings.HasPrefix(got, `[{"id":"5"`) {
			t.Error(got)
		}
		s.exactly(`{"deletedCount":2}`, "DELETE", "queue/dlq", "")
		s.exactly(`{"pending":0,"processing":1,"dlq":0,"total":1}`, "GET", "queue/stats", "")
	})
}

// fail enqueues a message that is tried once, and receives it.
func (s *store) fail() string {
	s.t.Helper()
	s.want(200, "", "POST", "queue/enqueue", `{"value":1,"options":{"backoffSchedule":[]}}`)
	return s.pull(`{"message":{"id":"ID","value":1,"attempts":1}}`)
}

func TestFaultyRequestsOfTheQueue(t *testing.T) {
	s := open(t)
	s.bodies(400, "POST", "queue/enqueue", `{}`, "value is missing",
		`{"value":1,"options":{"delay":-1}}`, "options.delay",
		`{"value":1,"options":{"delay":2592000001}}`, "options.delay", `{"value":1,"options":{"delay":"5"}}`, "delay",
		`{"value":1,"options":{"backoffSchedule":[-1]}}`, "options.backoffSchedule[0]",
		`{"value":1,"options":{"keysIfUndelivered":[[]]}}`, "options.keysIfUndelivered[0]",
		`{"value":1,"options":{"keysIfUndelivered":[["a",{"$bytes":"AP8="}]]}}`, "options.keysIfUndelivered[0]",
		`{"value":1,"priority":5}`, "priority")
	s.bodies(400, "POST", "queue/ack", `{}`, "non-empty string", `{"id":7}`, "id")
	s.bodies(400, "POST", "queue/nack", `{"id":""}`, "non-empty string")
	s.paths(400, "GET", ``, "queue/dlq?offset=-1", "offset", "queue/dlq?offset=10001", "offset",
		"queue/dlq?limit=0", "limit", "queue/poll?limit=5", "limit")
	s.want(405, "HEAD", "HEAD", "queue/poll", "")
	if w := s.send("GET", "queue/poll", "", "Sec-Fetch-Site: cross-site"); w.Code != 403 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.exactly(`{"pending":0,"processing":0,"dlq":0,"total":0}`, "GET", "queue/stats", "")
}

func TestB23ALockThatEndsIsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.want(200, "", "POST", "queue/enqueue", `{"value":1,"options":{"backoffSchedule":[0]}}`)
		first := s.pull(`{"message":{"id":"ID","value":1,"attempts":1}}`)
		time.Sleep(30 * time.Second)
		s.want(404, "", "POST", "queue/ack", `{"id":"`+first+`"}`)
		s.pull(`{"message":{"id":"ID","value":1,"attempts":2}}`)
		time.Sleep(30 * time.Second)
		s.pull(none)
		s.exactly(`{"pending":0,"processing":0,"dlq":1,"total":1}`, "GET", "queue/stats", "")
	})
}
