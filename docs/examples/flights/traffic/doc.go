// Package traffic keeps statistics of air traffic in durable actors: one per airport, one per
// route, and one per data set that is being imported. Flights that are very late have an actor each
// as well, whose workflow handles the passengers' claim.
//
// contract.go holds the contract: the names and types that callers need. The other files implement
// it.
//
// A departure is one call to its origin's actor. Its one commit holds the airport's new statistics,
// a row in the airport's own SQLite database, the event if the airport became congested, the alarm
// that will clear it, and two messages: the arrival, to the destination, and the flight, to the
// route. There is no moment at which a crash could leave some of these and not the others.
package traffic
