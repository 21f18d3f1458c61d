package client_test

import (
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

// The ids of two lives of an actor.
const (
	lifeOne = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	lifeTwo = "0a3f6931-7777-8a01-9c3e-5d0f2b7c8e14"
)

// reborn gives the actor another life, without events.
func (s *stage) reborn(life string) {
	s.change(func() { s.life, s.events, s.kept = life, nil, 0 })
}

func TestAStreamEndsWhenItsActorWasBornAgainWhileItWasAway(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.reborn(lifeOne)
		s.emit(3)
		stream := s.open(c, host.Subscription{Resume: true})
		defer stream.Close()
		s.expect(stream, 1, 3)
		synctest.Wait()
		s.cut()
		s.reborn(lifeTwo)
		s.emit(5)
		if d, err := stream.Next(t.Context()); host.CodeOf(err) != host.Destroyed {
			t.Errorf("%+v, %v", d, err)
		}
		if last := s.asked[len(s.asked)-1]; last.After != 3 || last.Life != lifeOne {
			t.Errorf("it asked to go on from %+v", last)
		}
	})
}

func TestASubscriberIsToldThatItsPositionIsOfAnotherLife(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.reborn(lifeTwo)
		stream := s.open(c, host.Subscription{Resume: true, After: 3, Life: lifeOne})
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
