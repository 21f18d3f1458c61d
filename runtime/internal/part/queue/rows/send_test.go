package queuerows

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

func TestCallsThatAreRefusedSayWhyAndDoNothing(t *testing.T) {
	const month = 31 * 24 * time.Hour
	ok, negative := body("ok"), -time.Second
	send := func(messages ...host.Enqueue) func(*Set) error {
		return func(s *Set) error { _, err := s.Send("jobs", messages); return err }
	}
	sendTo := func(queue string) func(*Set) error {
		return func(s *Set) error { _, err := s.Send(queue, []host.Enqueue{ok}); return err }
	}
	keys := func(keys ...[]byte) func(*Set) error { return send(host.Enqueue{KeysIfUndelivered: keys}) }
	receive := func(queue string, limit int, lock time.Duration) func(*Set) error {
		return func(s *Set) error { _, err := s.Receive(queue, limit, lock); return err }
	}
	many := make([]string, host.MaxQueueBatch+1)
	for name, c := range map[string]struct {
		call func(*Set) error
		code host.Code
		says string
	}{
		"no message":         {send(), host.InvalidArgument, "messages: there are none"},
		"too many":           {send(make([]host.Enqueue, host.MaxQueueBatch+1)...), host.TooLarge, "messages: 1001"},
		"negative delay":     {send(host.Enqueue{Delay: -1}), host.InvalidArgument, "delay_ms: -1 is not from 0 to 2592000000"},
		"long delay":         {send(host.Enqueue{Delay: month}), host.InvalidArgument, "delay_ms:"},
		"second message":     {send(ok, host.Enqueue{Delay: -1}), host.InvalidArgument, "messages[1].delay_ms:"},
		"high priority":      {send(host.Enqueue{Priority: 1001}), host.InvalidArgument, "priority:"},
		"low priority":       {send(host.Enqueue{Priority: -1001}), host.InvalidArgument, "priority:"},
		"long dedup id":      {send(host.Enqueue{DedupID: strings.Repeat("x", 256)}), host.InvalidArgument, "dedup_id:"},
		"negative ttl":       {send(host.Enqueue{TTL: -1}), host.InvalidArgument, "ttl_ms:"},
		"long ttl":           {send(host.Enqueue{TTL: month}), host.InvalidArgument, "ttl_ms:"},
		"ttl before delay":   {send(host.Enqueue{TTL: time.Second, Delay: time.Second}), host.InvalidArgument, "ttl_ms:"},
		"many pauses":        {send(host.Enqueue{Backoff: make([]time.Duration, 101)}), host.InvalidArgument, "backoff_ms:"},
		"negative pause":     {send(host.Enqueue{Backoff: []time.Duration{0, -1}}), host.InvalidArgument, "backoff_ms[1]:"},
		"many keys":          {keys(make([][]byte, 11)...), host.InvalidArgument, "keys_if_undelivered:"},
		"bad key":            {keys([]byte{0xFF}), host.InvalidArgument, "keys_if_undelivered[0]:"},
		"long key":           {keys(make([]byte, 1_901)), host.InvalidArgument, "keys_if_undelivered[0]:"},
		"large body":         {send(ok, body("1234567")), host.TooLarge, "messages[1].body:"},
		"too many messages":  {send(ok, ok, ok), host.Overloaded, "is full"},
		"never room":         {send(ok, ok, ok, ok), host.TooLarge, "holds 3 messages"},
		"never bytes":        {send(body("123456"), body("12345")), host.TooLarge, "holds 10 bytes"},
		"too many bytes":     {send(body("12345"), body("12345")), host.Overloaded, "10"},
		"unknown queue":      {sendTo("other"), host.NotFound, "has no queue"},
		"name with a slash":  {sendTo("jobs/dead"), host.NotFound, "has no queue"},
		"name that is empty": {sendTo(""), host.NotFound, "has no queue"},

		"receive none":      {receive("jobs", 0, 0), host.InvalidArgument, "limit: 0"},
		"receive too many":  {receive("jobs", host.MaxQueueBatch+1, 0), host.InvalidArgument, "limit: 1001"},
		"negative lock":     {receive("jobs", 1, -1), host.InvalidArgument, "lock_ms:"},
		"receive elsewhere": {receive("other", 1, 0), host.NotFound, "has no queue"},
		"next elsewhere":    {func(s *Set) error { _, _, err := s.Next("other"); return err }, host.NotFound, "has no queue"},
		"many receipts":     {func(s *Set) error { _, _, err := s.Ack("jobs", many, nil); return err }, host.TooLarge, "receipts: 1001"},
		"negative retry": {func(s *Set) error { _, _, err := s.Nack("jobs", nil, &negative, "", false); return err },
			host.InvalidArgument, "delay_ms:"},
		"long extension": {func(s *Set) error { _, _, err := s.Extend("jobs", nil, month); return err },
			host.InvalidArgument, "lock_ms:"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Queue{Name: "jobs", Messages: 3, Bytes: 10, MessageBytes: 6})
			w.cfg["jobs/dead"], w.cfg[""] = host.Queue{}, host.Queue{}
			w.must(func(s *Set) error {
				if _, err := s.Send("jobs", []host.Enqueue{ok}); err != nil {
					return err
				}
				if e := wantCode(t, c.call(s), c.code); !strings.Contains(e.Message, c.says) {
					t.Errorf("message %q does not say %q", e.Message, c.says)
				} else if c.code == host.Overloaded && (!e.Retryable || e.Metadata["limit"] == "" || e.Metadata["actual"] == "") {
					t.Errorf("%+v", e)
				}
				return nil // the turn goes on
			})
			w.verify()
			st := w.stats("jobs")
			fatalIf(t, st.Pending != 1 || st.Bytes != 2 || st.Sent != 1, "stats %+v", st)
		})
	}
}

func TestABatchBeyondTheWriteSetFailsTheTurn(t *testing.T) {
	w := newWorld(t, host.Queue{Name: "jobs"})
	batch := slices.Repeat([]host.Enqueue{{Body: make([]byte, 1<<20)}}, host.MaxQueueBatch)
	err := w.turn(func(s *Set) error {
		_, err := s.Send("jobs", batch)
		errorIf(t, !errors.Is(err, &engine.LimitError{What: engine.LimitWriteSet}), "send: %v", err)
		_, err = s.Send("jobs", batch[:1])
		errorIf(t, err == nil, "the turn went on")
		return nil // the handler does not mind
	})
	fatalIf(t, !errors.Is(err, &engine.LimitError{What: engine.LimitWriteSet}), "flush: %v", err)
	w.send("jobs", body("x"))
	w.verify()
	st := w.stats("jobs")
	fatalIf(t, st.Pending != 1 || st.Sent != 1, "stats %+v", st)
}
