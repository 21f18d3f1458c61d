package host

import "time"

// A Pause is the reason and the time of an actor's pause.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// Why names the first cause of an actor's wait.
type Why string

// What an actor may wait for, in the order in which Explanation picks.
const (
	WhyType        Why = "type"        // the program does not have its type
	WhyFailed      Why = "failed"      // it cannot be woken or keeps crashing, and is tried again later
	WhyPaused      Why = "paused"      // an operator paused it
	WhyCall        Why = "call"        // its turn waits for another actor
	WhyTurn        Why = "turn"        // a handler is running
	WhyDisk        Why = "disk"        // a commit waits for the disk
	WhyUnwritable  Why = "unwritable"  // the store takes no writes
	WhyPublisher   Why = "publisher"   // a durable event cannot be published
	WhyMailbox     Why = "mailbox"     // work waits for its turn
	WhyTasks       Why = "tasks"       // a task runs beside it
	WhySends       Why = "sends"       // messages to other actors are not handled yet
	WhyRun         Why = "workflow"    // its workflow run is paused, or waits for something
	WhyQueue       Why = "queue"       // a queue has messages for its handler
	WhyWorkers     Why = "workers"     // a queue has messages that no worker has received
	WhyLocked      Why = "locked"      // messages are locked by workers
	WhyAlarm       Why = "alarm"       // the next alarm or schedule is due later
	WhyConnections Why = "connections" // clients are connected, and nothing else
	WhyDead        Why = "dead"        // messages to other actors were given up, and nothing else
	WhyCalls       Why = "calls"       // nothing but the next call
)

// An Explanation says what an actor waits for.
type Explanation struct {
	Why Why `json:"why"`
	// Text is one sentence for people.
	Text string `json:"text"`
	// Since is when the wait began and Until when it ends by itself, as far as that is known.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Remedy names the verb that gets the actor going, if there is one: "resume", "retry", "skip",
	// "requeue", "destroy".
	Remedy string `json:"remedy,omitempty"`
	// Details are for programs: "handler", "chain", "queue", "target" and the like.
	Details map[string]string `json:"details,omitempty"`
	Status  Status            `json:"status"`
}
