package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/cairn-run/cairn/runtime"
)

// TestTwinSendsTheBytesOfANode compares the first message, but for its time.
func TestTwinSendsTheBytesOfANode(t *testing.T) {
	life := regexp.MustCompile(`@[0-9a-f-]{36}`)
	clock := regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	for sockets, message := range map[bool]func(n, audience int) []byte{true: socketMessage, false: eventMessage} {
		var heard []byte
		b := &bench{dir: t.TempDir()}
		b.node(runtime.Options{Listen: "127.0.0.1:0", Actors: stageDefinition(func(int) {})}, func(rt *runtime.Runtime) {
			path := stagePath
			if !sockets {
				path += stageEvent
			}
			l := listen(rt.Addr(), path, stageHello, sockets)
			defer l.conn.Close()
			count := l.count
			l.count = func(b []byte) int {
				heard = append(heard, b...)
				return count(b)
			}
			_, err := say.Call(context.Background(), stages.Ref(rt, "one"), line{0, lineText})
			check(err)
			if _, err := l.next(1); err != nil {
				t.Fatal(err)
			}
		})
		plain := func(b []byte) []byte {
			return life.ReplaceAll(clock.ReplaceAll(b, []byte("T")), []byte("@L"))
		}
		got, want := plain(heard), plain(message(0, 1))
		if !bytes.Contains(got, want) {
			t.Errorf("a node sends\n%q\nand the twin\n%q", got, want)
		}
	}
}

// TestEveryMessageIsHeardByAll runs the measurements for a moment; they end the program if a
// listener misses one.
func TestEveryMessageIsHeardByAll(t *testing.T) {
	for _, sockets := range []bool{true, false} {
		b := &bench{dir: t.TempDir(), time: 20 * time.Millisecond}
		for name, v := range map[string]fanFigures{"node": b.fanOut(20, sockets), "twin": b.rawFanOut(20, sockets)} {
			if v.rate <= 0 || v.p99 <= 0 {
				t.Errorf("%s, WebSockets %v: %+v", name, sockets, v)
			}
		}
	}
}
