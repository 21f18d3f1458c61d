package actor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
)

// A ledger keeps the balance of its accounts, and a total that follows their changes.
var (
	ledgers  = actor.NewType[ledger]("ledger")
	post     = actor.NewAction[map[string]int, actor.None](ledgers, "post")
	shutting = actor.NewAction[actor.None, actor.None](ledgers, "close")
	entries  = actor.NewQuery[actor.None, string](ledgers, "entries")
	accounts = actor.NewMap[string, int](ledgers, "accounts",
		actor.MapConfig{Log: true, LogEvents: 10_000, LogBytes: 16 << 20, LogFor: 24 * time.Hour})
)

type ledger struct {
	Log []string
}

func (*ledger) post(ctx *actor.Context, amounts map[string]int) (actor.None, error) {
	for name, amount := range amounts {
		if err := accounts.Put(ctx, name, amount); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (*ledger) close(ctx *actor.Context, _ actor.None) (actor.None, error) {
	_, err := accounts.Clear(ctx)
	return actor.None{}, err
}

func (l *ledger) changed(_ *actor.Context, c actor.MapChange[string, int]) error {
	switch {
	case c.Missed > 0 || c.Err != nil:
		l.Log = append(l.Log, "the books are to be checked")
	case c.Removed:
		l.Log = append(l.Log, fmt.Sprintf("%s is gone, expired: %t", c.Key, c.Expired))
	default:
		l.Log = append(l.Log, fmt.Sprintf("%s has %d, for ever: %t", c.Key, c.Value, c.Expire.IsZero()))
	}
	return nil
}

func (l ledger) entries(*actor.ReadContext, actor.None) (string, error) {
	return fmt.Sprintf("%q", l.Log), nil
}

func ExampleOnChange() {
	node, stop := open(actor.Define(ledgers, actor.Spec[ledger]{OpenKV: true},
		actor.On(post, (*ledger).post), actor.On(shutting, (*ledger).close), actor.OnQuery(entries,
			ledger.entries), actor.OnChange(accounts, (*ledger).changed)))
	defer stop()
	ctx, mine := context.Background(), ledgers.Ref(node, "mine")
	must(post.Call(ctx, mine, map[string]int{"ada": 7}))
	must(shutting.Call(ctx, mine, actor.None{}))
	for e, err := range mine.KV().Feed(ctx, kv.FeedConfig{}) { // from the outside, the same changes
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Sequence, e.Cause, e.Key)
		if e.Sequence == 2 {
			break
		}
	}
	for len(must(entries.Call(ctx, mine, actor.None{}))) < 50 { // the handler comes after the commit
		time.Sleep(time.Millisecond)
	}
	fmt.Println(must(entries.Call(ctx, mine, actor.None{})))
	// Output:
	// 1 set [accounts ada]
	// 2 delete_range [accounts ada]
	// ["ada has 7, for ever: true" "ada is gone, expired: false"]
}
