package handle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	logs  = actor.NewType[struct{}]("log")
	lines = actor.NewStream[string](logs, "lines", actor.StreamConfig{MaxItems: 3, External: true})
)

func ExampleStream() {
	node, stop := open(actor.Define(logs, actor.Spec[struct{}]{}))
	defer stop()
	ctx := context.Background()
	stream := lines.Of(logs.Ref(node, "build"))
	fmt.Println(must(stream.Append(ctx, "a", "b", "c", "d")))
	info := must(stream.Info(ctx))
	fmt.Println(info.First, info.Last, info.Closed)

	page := must(stream.Read(ctx, handle.Position{}, handle.ReadConfig{Max: 2}))
	fmt.Println(page.Missed, "missed, then", page.Items[0].Value, page.Items[1].Value)
	page = must(stream.Read(ctx, page.Next, handle.ReadConfig{}))
	fmt.Println(page.Items[0].Value, page.Closed)

	if err := stream.Close(ctx); err != nil {
		fmt.Println(err)
	}
	var at handle.Position // what a reader keeps to go on later
	for item, err := range stream.Follow(ctx, at) {
		if gap, ok := errors.AsType[*handle.GapError](err); ok {
			fmt.Println("missed", gap.Missed)
			continue
		}
		fmt.Println(item.Value, err)
		at = item.Position()
	}
	fmt.Println(at.After, at.Life == info.Life)
	fmt.Println(stream.Delete(ctx))
	// Output:
	// 4
	// 2 4 false
	// 1 missed, then b c
	// d false
	// missed 1
	// b <nil>
	// c <nil>
	// d <nil>
	// 4 true
	// true <nil>
}
