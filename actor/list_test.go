package actor_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// uncertainNode has two pages, each of which leaves the same actors out.
type uncertainNode struct{ actor.Node }

func (uncertainNode) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	page := host.ListPage{Actors: []host.Status{{Key: []string{"page" + q.Cursor}}}}
	for i := range 12 {
		page.Uncertain = append(page.Uncertain, host.Address{Type: "listed", Key: []string{strconv.Itoa(i)}})
	}
	if q.Cursor == "" {
		page.Cursor = "2"
	}
	return page, nil
}

func TestAListCountsWhatItLeavesOutOnce(t *testing.T) {
	listed := actor.NewType[struct{}]("listed")
	var keys []string
	var last error
	for ref, err := range listed.Find(t.Context(), uncertainNode{}, handle.FindQuery{}) {
		if last = err; err == nil {
			keys = append(keys, ref.Key()...)
		}
	}
	if got := strings.Join(keys, " "); got != "page page2" || last == nil || !strings.Contains(last.Error(), `: 12 with the keys ["0"]`) {
		t.Errorf("%s, %v", got, last)
	}
}
