package schedulerows

import (
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// BenchmarkArm arms schedules, 10,000 per actor, a hundred a commit: ten operations of it are 100,000.
func BenchmarkArm10000(b *testing.B) {
	for _, rule := range []host.Schedule{{Every: 60_000}, {Cron: "0 3 * * *", Zone: "Europe/Zurich"}} {
		b.Run(rule.Cron, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				n := newNode(b)
				b.StartTimer()
				for i := range host.MaxSchedules {
					s := rule
					s.Name, s.Instance = "s", fmt.Sprint(i)
					_, _, err := n.book().Set(s)
					must(b, err)
					if i%100 == 99 {
						n.commit()
					}
				}
			}
		})
	}
}

// BenchmarkFire runs one tick: what is due, the run, the next tick.
func BenchmarkFire(b *testing.B) {
	n := newNode(b)
	n.set(host.Schedule{Name: "s", Cron: "*/5 * * * *", Zone: "Europe/Zurich"})
	b.ReportAllocs()
	for range b.N {
		rows := n.wakes()
		n.now = *timeOf(rows[0].Due)
		n.fire(rows[0])
		n.commit()
		n.ticks = nil
	}
}
