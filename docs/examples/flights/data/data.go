// Package data holds the flights and airports that the example replays, embedded in the program.
// Its README names the source.
package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Name identifies the flights' data set. It is the key of the actor that keeps the import's
// position in it, so another data set needs another name.
const Name = "flights-20k"

var (
	//go:embed flights-20k.csv.gz
	flightsCSV []byte
	//go:embed airports.csv
	airportsCSV []byte
)

// A Flight is one row of the data set.
type Flight struct {
	// Date is when the flight was to leave: "2006-01-02T15:04:05" in the local time of its origin.
	Date string
	// Origin and Destination are IATA codes.
	Origin, Destination string
	// Distance is in miles.
	Distance int
	// Delay is in minutes; an early flight has a negative one.
	Delay int
}

// Flights returns all flights in order of their dates.
func Flights() ([]Flight, error) {
	z, err := gzip.NewReader(bytes.NewReader(flightsCSV))
	if err != nil {
		return nil, fmt.Errorf("flights: %w", err)
	}
	var flights []Flight
	err = rows(z, []string{"date", "origin", "destination", "distance", "delay"}, func(row []string) error {
		distance, err := strconv.Atoi(row[3])
		if err != nil {
			return fmt.Errorf("distance: %w", err)
		}
		delay, err := strconv.Atoi(row[4])
		if err != nil {
			return fmt.Errorf("delay: %w", err)
		}
		flights = append(flights, Flight{Date: row[0], Origin: row[1], Destination: row[2], Distance: distance, Delay: delay})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("flights: %w", err)
	}
	return flights, nil
}

// An Airport is what is known of an airport beside its flights.
type Airport struct {
	Name, City, State string
}

// Airports returns the airports by IATA code.
func Airports() (map[string]Airport, error) {
	airports := make(map[string]Airport)
	header := []string{"iata", "name", "city", "state", "country", "latitude", "longitude"}
	err := rows(bytes.NewReader(airportsCSV), header, func(row []string) error {
		a := Airport{Name: row[1], City: row[2], State: row[3]}
		if a.City == "NA" { // The source's word for "unknown"; no US city is called that.
			a.City, a.State = "", ""
		}
		airports[row[0]] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("airports: %w", err)
	}
	return airports, nil
}

// rows calls each for every row of a CSV file that begins with header. The row is valid until each
// returns.
func rows(r io.Reader, header []string, each func(row []string) error) error {
	c := csv.NewReader(r)
	c.FieldsPerRecord = len(header)
	c.ReuseRecord = true
	for first := true; ; first = false {
		row, err := c.Read()
		if errors.Is(err, io.EOF) && !first {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			for i := range header {
				if row[i] != header[i] {
					return fmt.Errorf("line 1: column %q, expected %q", row[i], header[i])
				}
			}
			continue
		}
		if err := each(row); err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
