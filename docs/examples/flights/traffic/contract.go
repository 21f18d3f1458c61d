package traffic

import (
	"time"

	"github.com/cairn-run/cairn/actor"
)

// Airports are actors with one key part, the airport's IATA code.
var (
	Airports = actor.NewType[Airport]("airport")

	// Depart records a flight that leaves the airport. Flights with a Number are counted once each
	// and must come in order of their numbers.
	Depart = actor.NewAction[Flight, Departure](Airports, "depart")
	// Arrive records a flight that reached the airport. Departures send it.
	Arrive = actor.NewAction[Arrival, actor.None](Airports, "arrive")
	// AirportStats tells how punctual the airport's flights were.
	AirportStats = actor.NewQuery[actor.None, AirportReport](Airports, "stats")

	// Worst tells at which hours and on which routes departures were latest, from a table with a
	// row for each.
	Worst = actor.NewQuery[WorstQuery, WorstReport](Airports, "worst")

	// Congested is emitted when the mean delay of the last RecentFlights departures reaches
	// CongestedAt, Cleared when it is back at ClearedAt, or when no flight has left for QuietAfter.
	Congested = actor.NewEvent[Congestion](Airports, "congested", actor.EventConfig{})
	Cleared   = actor.NewEvent[Clearance](Airports, "cleared", actor.EventConfig{})
	// Quiet is the alarm that clears a congested airport after its last departure.
	Quiet = actor.NewAlarm[actor.None](Airports, "quiet")
)

// Routes are actors with two key parts, the IATA codes of origin and destination.
var (
	Routes = actor.NewType[Route]("route")

	// Fly records a flight on the route. Departures send it.
	Fly = actor.NewAction[Leg, actor.None](Routes, "fly")
	// RouteStats tells how punctual the route's flights were.
	RouteStats = actor.NewQuery[actor.None, RouteReport](Routes, "stats")
)

// Imports are actors with one key part, the name of a data set. Each keeps how far its import has
// come.
var (
	Imports = actor.NewType[Import]("import")

	// Advance moves the position forward to the number given, and returns it. A position never
	// moves back.
	Advance = actor.NewAction[int64, int64](Imports, "advance")
	// Position is how many rows of the data set, from the first on, are imported and durable.
	Position = actor.NewQuery[actor.None, int64](Imports, "position")
)

// Claims are actors with one key part, the number of a flight that was more than ClaimAfter minutes
// late: see [ClaimKey]. The departure files them. Each runs a workflow, which waits for documents
// and then pays or rejects.
var (
	Claims = actor.NewType[Claim]("claim")

	// File begins to handle a claim; the input is the delay in minutes. Departures send it.
	File = actor.NewAction[int, actor.None](Claims, "file")
	// Documents are what the passengers hand in. The claim's workflow receives the first.
	Documents = actor.NewQueue[Papers](Claims, "documents", actor.QueueConfig{ByRun: true})
	// LookAt tells how a claim stands.
	LookAt = actor.NewQuery[actor.None, ClaimReport](Claims, "look")
)

// Funds are actors with one key part. What claims are paid from is the fund "claims".
var (
	Funds = actor.NewType[Fund]("fund")

	// Reserve sets money aside, Book says that it was paid, and Release that it was not needed.
	// Each does it once per flight.
	Reserve = actor.NewAction[Payment, actor.None](Funds, "reserve")
	Book    = actor.NewAction[Payment, actor.None](Funds, "book")
	Release = actor.NewAction[Payment, actor.None](Funds, "release")
	// Totals returns the sums that are set aside now, paid, and given back.
	Totals = actor.NewQuery[actor.None, FundReport](Funds, "totals")
)

// ClaimAfter is the delay in minutes beyond which a flight is compensated.
const ClaimAfter = 120

// When an airport counts as congested. That the two limits differ keeps an airport near one of them
// from flapping.
const (
	RecentFlights = 10 // departures
	CongestedAt   = 30 // minutes of mean delay
	ClearedAt     = 15 // minutes of mean delay
	QuietAfter    = time.Minute
)

// A Flight is the input of Depart. Only the destination is required.
type Flight struct {
	// Number orders the flights of an import, from 1; 0 for a flight that comes from no import.
	Number int64 `json:"number,omitempty"`
	// Date is the scheduled departure, in the local time of the airport, like
	// "2001-01-01T00:47:00".
	Date        string `json:"date,omitempty"`
	Destination string `json:"destination"`
	// Distance is in miles.
	Distance int `json:"distance,omitempty"`
	// Delay is in minutes, at most MaxDelay either way; an early flight has a negative one.
	Delay int `json:"delay"`
}

// A Departure is the reply to Depart.
type Departure struct {
	// Flights counts the airport's departures, this one included.
	Flights int64 `json:"flights"`
	// RecentDelay is the mean delay of the last departures, in minutes.
	RecentDelay float64 `json:"recent_delay"`
	Congested   bool    `json:"congested"`
	// Repeated is set if a flight of this number was counted before; then nothing changed.
	Repeated bool `json:"repeated,omitempty"`
}

// An Arrival is the input of Arrive.
type Arrival struct {
	Origin string `json:"origin"`
	Delay  int    `json:"delay"`
}

// A Leg is the input of Fly.
type Leg struct {
	Distance int `json:"distance"`
	Delay    int `json:"delay"`
}

// An AirportReport is the answer to AirportStats.
type AirportReport struct {
	Airport   string `json:"airport"`
	Congested bool   `json:"congested"`
	// RecentDelay is the mean delay of the last departures, in minutes.
	RecentDelay float64 `json:"recent_delay"`
	Departures  Summary `json:"departures"`
	Arrivals    Summary `json:"arrivals"`
	// Claims counts the departures for which a claim was filed.
	Claims int64 `json:"claims"`
}

// MaxWorst bounds WorstQuery.Limit.
const MaxWorst = 100

// A WorstQuery is the input of Worst.
type WorstQuery struct {
	// Limit bounds each list, at most MaxWorst; 0 for 5.
	Limit int `json:"limit,omitempty"`
	// LeastFlights leaves out hours and routes with fewer flights.
	LeastFlights int64 `json:"least_flights,omitempty"`
}

// A WorstReport is the answer to Worst: by falling mean delay.
type WorstReport struct {
	Airport string  `json:"airport"`
	Hours   []Group `json:"hours"`
	Routes  []Group `json:"routes"`
}

// A Group is the departures of one hour of the day, like "17:00", or to one destination.
type Group struct {
	Name    string `json:"name"`
	Flights int64  `json:"flights"`
	// TotalDelay is the sum of all delays, in minutes; MeanDelay is rounded to two decimals.
	TotalDelay int64   `json:"total_delay"`
	MeanDelay  float64 `json:"mean_delay"`
	// Late counts the flights with more than 15 minutes.
	Late int64 `json:"late"`
}

// A RouteReport is the answer to RouteStats.
type RouteReport struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	// Distance is in miles.
	Distance int     `json:"distance"`
	Delays   Summary `json:"delays"`
}

// A Congestion is the data of the event Congested.
type Congestion struct {
	Airport string `json:"airport"`
	// RecentDelay is the mean delay of the last departures, in minutes.
	RecentDelay float64 `json:"recent_delay"`
	// Date is that of the flight that tipped the scales.
	Date string `json:"date,omitempty"`
}

// A Clearance is the data of the event Cleared.
type Clearance struct {
	Airport string `json:"airport"`
	// Reason is "recovered" when departures became punctual again, "quiet" when there were none.
	Reason string `json:"reason"`
}

// Papers are what passengers hand in for a claim.
type Papers struct {
	// Complete says that nothing is missing.
	Complete bool `json:"complete"`
}

// An Ending is how a claim has ended; "" while it has not.
type Ending string

const (
	Paid     Ending = "paid"
	Rejected Ending = "rejected" // the documents are not complete, or did not come in time
	Undone   Ending = "undone"   // the bank refused the transfer, and the money that was set aside is back in the fund
)

// A ClaimReport is the answer to LookAt.
type ClaimReport struct {
	// Amount is in dollars.
	Amount int64  `json:"amount"`
	Ending Ending `json:"ending"`
}

// A Payment is money of a fund for a claim.
type Payment struct {
	Flight string `json:"flight"`
	// Amount is in dollars.
	Amount int64 `json:"amount"`
}

// A FundReport is the answer to Totals, in dollars: set aside now, paid, and given back.
type FundReport struct {
	Reserved int64 `json:"reserved"`
	Paid     int64 `json:"paid"`
	Undone   int64 `json:"undone"`
}
