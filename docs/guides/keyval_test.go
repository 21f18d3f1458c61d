package guides_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
)

var (
	Offices = actor.NewType[Office]("office")
	Errands = actor.NewQueue[Errand](Offices, "kv", actor.QueueConfig{Workers: true})
)

type Office struct{}

type Errand struct {
	Task string `json:"task"`
}

func TestKeyVal(t *testing.T) {
	_, send := cells(t)
	send("PUT", "keyval/api/keys/users/123", `{"name":"Alice","age":30}`)
	if got := send("GET", "keyval/api/keys/users/123", ""); !strings.HasPrefix(got, `{"key":["users",123],"value":{"name":"Alice","age":30},"versionstamp":"`) {
		t.Error(got)
	}
	if got := send("POST", "keyval/api/keys/list", `{"prefix":["users"],"where":{"age":{"$gte":18}}}`); !strings.Contains(got, "Alice") {
		t.Error(got)
	}
	if got := send("DELETE", "keyval/api/keys/tasks", `{"where":{"status":"completed"}}`); got != `{"deletedCount":0}` {
		t.Error(got)
	}
	send("POST", "keyval/api/queue/enqueue", `{"value":{"task":"webhook"},"options":{"backoffSchedule":[],"keysIfUndelivered":[["failed-webhooks","hook-123"]]}}`)
	var polled struct {
		Message struct {
			ID    string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(send("GET", "keyval/api/queue/poll", "")), &polled); err != nil || string(polled.Message.Value) != `{"task":"webhook"}` {
		t.Error(polled, err)
	}
	send("POST", "keyval/api/queue/nack", `{"id":"`+polled.Message.ID+`"}`)
	if got := send("GET", "keyval/api/keys/failed-webhooks/hook-123", ""); !strings.Contains(got, `"value":{"task":"webhook"}`) {
		t.Error(got)
	}
	if got := send("GET", "keyval/api/queue/dlq", ""); !strings.Contains(got, `"value":{"task":"webhook"}`) {
		t.Error(got)
	}
}
