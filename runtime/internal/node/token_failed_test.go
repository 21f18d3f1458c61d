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
		made := g.newToken(token.CreateInput{Rights: []string{"read"}})
		inspects := g.newToken(token.CreateInput{Rights: []string{"read", "inspect"}}) // it has a key of its own
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
		valid := func(text string) error {
			_, err := g.CheckToken(t.Context(), pAddr("a"), text)
			return err
		}
		if n := flood(pAddr("a")); n != 200 {
			t.Errorf("%d of 300 are refused, want 200", n)
		}
		for _, text := range []string{made.Text, inspects.Text, short.Text} {
			if err := valid(text); err != nil {
				t.Errorf("a token that is valid: %v", err)
			}
		}
		if _, err := g.as(inspects.Text, host.TokenList, `{}`); err != nil {
			t.Errorf("a token that inspects: %v", err)
		}
		other, _, _ := token.New()
		wrong := made.Text[:len(token.Prefix)+token.IDChars] + other[len(token.Prefix)+token.IDChars:]
		if err := valid(wrong); host.CodeOf(err) != host.Overloaded {
			t.Errorf("a token with another secret: %v", err)
		}
		if n := flood(pAddr("absent")); n != 200 {
			t.Errorf("%d of 300 are refused of an actor that is not there", n)
		}

		// The list of the tokens is older than this one, so it was not read again.
		later := g.newToken(token.CreateInput{Rights: []string{"read"}})
		if err := valid(later.Text); host.CodeOf(err) != host.Overloaded {
			t.Errorf("a token that the list lacks: %v", err)
		}
		time.Sleep(time.Second)
		flood(pAddr("a"))
		if err := valid(later.Text); err != nil {
			t.Errorf("a token of more than a second ago: %v", err)
		}
		if err := valid(short.Text); host.CodeOf(err) != host.Overloaded {
			t.Errorf("a token that has expired: %v", err)
		}

		// A token that was revoked is still in the list, so its row is read.
		g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: later.ID}, nil)
		if err := valid(later.Text); host.CodeOf(err) != host.Overloaded {
			t.Errorf("a token that was revoked: %v", err)
		}
		time.Sleep(time.Minute)
		if err := valid(wrong); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("after a minute: %v", err)
		}
	})
}
