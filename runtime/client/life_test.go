package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

// reborn gives the room another life, without events.
func (s *stage) reborn() {
	s.call("leave", "")
	s.last = 0
	s.call("none", "")
}

func TestAStreamEndsWhenItsActorWasBornAgainWhileItWasAway(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.emit(3)
		st, err := s.node.Lookup(t.Context(), room)
		must(t, err)
		stream := s.open(c, host.Subscription{Resume: true})
		defer stream.Close()
		s.expect(stream, 1, 3)
		synctest.Wait()
		s.cut()
		synctest.Wait()
		s.reborn()
		s.emit(5)
		if d, err := stream.Next(t.Context()); host.CodeOf(err) != host.Destroyed {
			t.Errorf("%+v, %v", d, err)
		}
		if all := s.asked("subscribe"); !strings.Contains(all[len(all)-1], "After:3 Life:"+st.ID) {
			t.Errorf("it asked to go on with %s", all)
		}
	})
}

func TestASubscriberIsToldThatItsPositionIsOfAnotherLife(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		stream := s.open(c, host.Subscription{Resume: true, After: 3, Life: "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"})
		defer stream.Close()
		d, err := stream.Next(t.Context())
		if err != nil || !d.Reset || d.Missed != 0 || len(d.Events) != 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		s.emit(2)
		s.expect(stream, 1, 2)
		synctest.Wait()
		s.cut() // it goes on in the life that it is in now
		s.emit(1)
		s.expect(stream, 3, 3)
	})
}
