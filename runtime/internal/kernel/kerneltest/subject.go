// Package kerneltest is the conformance suite of parts. [Run] takes any part through everything
// that may happen to the actors that use it: turns that fail, crash or hang, a crash of the node at
// every sync, sleep, pause, restart, and destruction with work under way.
//
// A test describes its part in a [Subject]: how a turn uses it, what the part shows of that, and
// how the begun work ends. The suite knows no part. It checks the same claims for each:
//
//  1. A turn that was acknowledged is there after a crash. A turn that was not is there whole or
//     not at all, and it is there if a client has seen anything of it.
//  2. A turn that fails leaves no key, no row of the wake index, no change and no event, and the
//     part remembers nothing of it.
//  3. Nothing leaves before the turn that caused it is durable.
//  4. Work that a turn has begun ends once, even after a sleep, restart, pause or crash.
//  5. Nothing of an actor that was destroyed is left: no key, no row of the wake index, nothing in
//     memory. Nothing of it ends in its successor.
//  6. An actor that has nothing to do leaves memory, and after Close no goroutine is left.
//
// Each use has a number. The suite compares four lists of numbers: the uses that were acknowledged,
// the uses in the actor's state, the uses that the part shows, and the uses whose work has ended.
//
// A row of the wake index that stays although its work succeeds is tried again at once. A part with
// that fault does not fail the suite: the test runs into its time limit.
package kerneltest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// A Subject is a part under test.
type Subject struct {
	// Part is the name of the part.
	Part string
	// New makes a node with the part.
	New func(options.Options) (*kernel.Kernel, error)
	// Declare adds to the behavior what the part needs. It may be nil. Handlers of alarms,
	// messages, schedules and lost connections record the number in their payload as ended. That of
	// the changes of a map records the number that the key of an expired entry ends with.
	Declare func(*host.Behavior)
	// Use uses the part in a turn: it writes the number n, and begins work that ends later. It may
	// also be called in a turn that is over. It is called by several goroutines.
	Use func(t host.Turn, n int) error
	// Open begins something that a handler must not leave open, such as a transaction. It is called
	// in turns that fail. It may be nil.
	Open func(t host.Turn)
	// Call makes a call whose turn runs Use. It hands input to the suite's [Handle]. Nil means that
	// the call is an action.
	Call func(k *kernel.Kernel, a host.Address, input []byte) error
	// Operates: Call is for operators and runs no handler. The state of the actor has no number of
	// it, the last use replaces those before, and there are no turns that fail.
	Operates bool
	// Read returns the numbers that the part has. Show does the same from outside, for parts that
	// queries cannot read. At most one is set.
	Read func(host.Reader) ([]int, error)
	Show func(*kernel.Kernel, host.Address) ([]int, error)
	// Shows says which numbers the part has.
	Shows Shows
	// Listen is a client that gets numbers from the actor until the node ends. It may be nil.
	Listen func(k *kernel.Kernel, a host.Address, got func(n int)) error

	// Ends is how long the work that Use begins takes to end; 0 if it begins none. It ends when a
	// turn calls [End].
	Ends time.Duration
	// Stays is the kind of a row at 0 of the wake index that stays for as long as the actor; 0 for
	// none.
	Stays keyspace.WakeKind
	// Rests is how long it takes until an actor has nothing to do at all; 0 if that is less than 10
	// minutes.
	Rests time.Duration
	// Elsewhere: it ends in the actor [Target], in a call of the method "end" with [Payload] as
	// input. Destroying the actor that began it does not stop it.
	Elsewhere bool
	// Awake: it keeps the actor in memory.
	Awake bool
	// Mortal: it ends without a trace when the actor is restarted.
	Mortal bool
}

// Shows says which numbers a part has.
type Shows int

// What a part shows of its uses.
const (
	ShowsAll  Shows = iota // all uses
	ShowsOpen              // the uses whose work has not ended
)

// Type is the actor type of the suite, and Target the actor to which uses may send.
const Type = "subject"

// Target is the actor in which work ends that is done elsewhere.
var Target = host.Address{Type: Type, Key: []string{"target"}}

// Busy is how long Target takes for each number.
const Busy = 10 * time.Second

// Long reports whether the long form is asked for: the node crashes at every sync, and not at some.
func Long() bool { return os.Getenv("CAIRN_LONG") != "" }

// Run runs the suite on a part. Each scenario is a subtest.
func Run(t *testing.T, s Subject) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range sc.run(t, &s) {
				t.Error(fault)
			}
		})
	}
}

// A scenario is something that happens to actors that use a part. run returns the claims that do
// not hold.
type scenario struct {
	name string
	run  func(t *testing.T, s *Subject) []string
}

// one makes a scenario of one trial.
func one(name string, f func(x *trial)) scenario {
	return scenario{name, func(t *testing.T, s *Subject) []string { return try(t, s, f) }}
}

// try runs f on a node of its own, in virtual time, and returns the claims that did not hold.
func try(t *testing.T, s *Subject, f func(x *trial)) []string {
	var x *trial
	synctest.Test(t, func(*testing.T) {
		x = newTrial(s)
		x.attempt(func() {
			x.start()
			f(x)
			x.finish()
		})
		x.release()
	})
	return x.list
}
