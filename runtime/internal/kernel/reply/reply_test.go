package reply

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestReplyIsFoundByTheSameRequestUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
		must(t, err)
		defer s.Close()
		space, err := s.OpenSpace(s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}}))
		must(t, err)
		defer space.Close()
		rows := space.Writes()
		r := Request{Key: "once", Method: "say", Codec: host.JSON, Input: []byte(`"hi"`)}
		rows.Advance(time.Now().UnixMilli())
		if _, ok, err := Find(rows, r); ok || err != nil {
			t.Fatalf("before the first call: %t, %v", ok, err)
		}
		must(t, Keep(rows, r, Reply{Version: 7, Output: []byte("done")},
			engine.PutOptions{ExpireAt: time.Now().Add(time.Hour).UnixMilli()}))
		at := rows.Version()
		if found, ok, err := Find(rows, r); !ok || err != nil || found.Version != 7 || string(found.Output) != "done" {
			t.Errorf("%+v, %t, %v", found, ok, err)
		}
		for _, other := range []Request{
			{r.Key, "shout", r.Codec, r.Input}, {r.Key, r.Method, host.CBOR, r.Input}, {r.Key, r.Method, r.Codec,
				[]byte(`"ho"`)}, {r.Key, "s", r.Codec, []byte(`ay"hi"`)},
		} {
			_, ok, err := Find(rows, other)
			errorIf(t, ok || host.CodeOf(err) != host.IdempotencyMismatch, "%+v: %t, %v", other, ok, err)
		}
		time.Sleep(time.Hour)
		if _, ok, err := Find(rows, r); ok || err != nil {
			t.Errorf("after it expired: %t, %v", ok, err)
		}
		errorIf(t, rows.Version() != at, "looking for a reply has changed the version")
	})
}

var must, errorIf = testutil.Must, testutil.ErrorIf
