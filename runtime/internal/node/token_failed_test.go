package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
)

// TestTooManyTokensThatAreNotValidAreRefused shows an actor very many of them. Valid ones are never refused.
func TestTooManyTokensThatAreNotValidAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil, &puppetType{name: "p"})
		g.must("a", add(1))
		g.must("b", add(1))
		made := g.newToken(rights("read"))
		inspects := g.newToken(rights("read,inspect")) // it has a key of its own
		short := g.newToken(token.CreateInput{Rights: []string{"read"}, TTLMS: 500})
		flood := func(a host.Address) (refused int) {
			t.Helper()
			for range 300 {
				text, _, _ := token.New()
				_, err := g.CheckToken(t.Context(), a, text)
				if errors.Is(err, token.ErrInvalid) {
					continue
				}
				if at := retryAt(t, err); time.Until(at) < time.Second/2 {
					t.Fatalf("it may come back in %s", time.Until(at))
				}
				refused++
			}
			return refused
		}
		refused := func(text string) {
			t.Helper()
			wantCode(t, g.checkToken(text), host.Overloaded)
		}
		for _, key := range []string{"absent", "a"} {
			if n := flood(pAddr(key)); n != 200 {
				t.Errorf("%d of 300 are refused of %s, want 200", n, key)
			}
		}
		g.grant(made.Text)
		g.grant(inspects.Text)
		g.grant(short.Text)
		other, _, _ := token.New()
		wrong := made.Text[:len(token.Prefix)+token.IDChars] + other[len(token.Prefix)+token.IDChars:]
		refused(wrong) // it has another secret

		// The list of the tokens is older than this one, so it was not read again.
		later := g.newToken(rights("read"))
		refused(later.Text)
		time.Sleep(time.Second)
		flood(pAddr("a"))
		g.grant(later.Text)
		refused(short.Text) // it has expired

		// A token that was revoked is still in the list, so its row is read.
		g.revoke(later.ID)
		refused(later.Text)
		time.Sleep(time.Minute)
		if err := g.checkToken(wrong); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("after a minute: %v", err)
		}
	})
}
