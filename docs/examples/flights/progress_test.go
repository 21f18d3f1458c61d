package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressShowsTheLiveRate(t *testing.T) {
	for _, c := range []struct {
		name string
		bar  bool
		want string
	}{
		{"lines", false, "replaying: 300 of 1,000 flights, 200/s\n" +
			"replaying: 700 of 1,000 flights, 400/s\n" +
			"replayed 900 flights in 2.25s: 400 durable calls a second\n"},
		{"bar", true, "\r[=========                     ]  30 %  300 of 1,000 flights, 200/s\x1b[K" +
			"\r[=====================         ]  70 %  700 of 1,000 flights, 400/s\x1b[K" +
			"\r[==============================] 100 %  1,000 of 1,000 flights, 400/s\x1b[K" +
			"\nreplayed 900 flights in 2.25s: 400 durable calls a second\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				p := newProgress(&b, 100, 1000)
				p.bar = c.bar
				time.Sleep(time.Second)
				p.update(300)
				p.update(301) // Too soon to be shown.
				time.Sleep(time.Second)
				p.update(700)
				time.Sleep(time.Second / 4)
				p.update(1000)
				p.end()
				if b.String() != c.want {
					t.Errorf("got\n%q\nexpected\n%q", b.String(), c.want)
				}
			})
		})
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, expected %q", n, got, want)
		}
	}
}
