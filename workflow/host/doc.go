// Package host runs workflow functions. A host stores the rows of runs and gives each run
// transactions, messages and goroutines. Package actor and its runtime are one host.
//
// A [Program] is a workflow without its types. A [Run] is one activation of it in memory; its
// comment says what the host must do. A [Turn] is one transaction of the host, a [Reader] the rows
// of one run. An [Attempt] is one execution of a step's body, and an [Outcome] says what a run
// waits for.
//
// [Start], [Cancel], [Terminate], [Hold], [Resume], [RetryEntry] and [Rewind] change a run in a
// turn. [ReadStatus], [History], [Export] and [Verify] read only its rows; the run need not be in
// memory.
//
// Some types are aliases of an internal package. Their comments list fields and methods as code.
package host
