package reply

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

func TestReplyIsFoundByTheSameRequestUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		space, err := s.OpenSpace(s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}}))
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close()
		rows := space.Writes()
		r := Request{Key: "once", Method: "say", Codec: host.JSON, Input: []byte(`"hi"`)}
		rows.Advance(time.Now().UnixMilli())
		if _, ok, err := Find(rows, r); ok || err != nil {
			t.Fatalf("before the first call: %t, %v", ok, err)
		}
		if err := Keep(rows, r, Reply{Version: 7, Output: []byte("done")}, engine.PutOptions{ExpireAt: time.Now().Add(time.Hour).UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		at := rows.Version()
		if found, ok, err := Find(rows, r); !ok || err != nil || found.Version != 7 || string(found.Output) != "done" {
			t.Errorf("%+v, %t, %v", found, ok, err)
		}
		for _, other := range []Request{
			{r.Key, "shout", r.Codec, r.Input}, {r.Key, r.Method, host.CBOR, r.Input}, {r.Key, r.Method, r.Codec, []byte(`"ho"`)}, {r.Key, "s", r.Codec, []byte(`ay"hi"`)},
		} {
			if _, ok, err := Find(rows, other); ok || host.CodeOf(err) != host.IdempotencyMismatch {
				t.Errorf("%+v: %t, %v", other, ok, err)
			}
		}
		time.Sleep(time.Hour)
		if _, ok, err := Find(rows, r); ok || err != nil {
			t.Errorf("after it expired: %t, %v", ok, err)
		}
		if rows.Version() != at {
			t.Error("looking for a reply has changed the version")
		}
	})
}
