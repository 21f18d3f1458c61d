package sqlitevfs

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A kind says how the values of a column are returned, by its declared type.
type kind uint8

const (
	asIs   kind = iota
	asBool      // BOOLEAN, BOOL
	asTime      // DATE, DATETIME, TIMESTAMP, TIME
)

// kindOf returns the kind of a declared type.
func kindOf(declared string) kind {
	name, _, _ := strings.Cut(declared, "(")
	switch strings.ToUpper(strings.TrimSpace(name)) {
	case "BOOLEAN", "BOOL":
		return asBool
	case "DATE", "DATETIME", "TIMESTAMP", "TIME":
		return asTime
	}
	return asIs
}

// convert converts a value of SQLite to the column's kind, or returns it as it is.
func (k kind) convert(v driver.Value) driver.Value {
	switch k {
	case asBool:
		switch v {
		case int64(0):
			return false
		case int64(1):
			return true
		}
	case asTime:
		switch v := v.(type) {
		case string:
			if t, ok := parseTime(v); ok {
				return t
			}
		case int64:
			return time.Unix(v, 0).UTC()
		}
	}
	return v
}

// parseTime reads a date, or a date and a time of day, as SQLite's functions and this package write
// them. Without an offset it is UTC.
func parseTime(s string) (time.Time, bool) {
	if len(s) < len(time.DateOnly) || len(s) > 48 || s[4] != '-' || s[7] != '-' {
		return time.Time{}, false
	}
	day, rest := s[:10], s[10:]
	zone := "Z"
	if rest == "" {
		rest = " 00:00:00"
	}
	if n := len(rest); rest[n-1] == 'Z' {
		rest = rest[:n-1]
	} else if n > 6 && (rest[n-6] == '+' || rest[n-6] == '-') {
		rest, zone = strings.TrimRight(rest[:n-6], " "), rest[n-6:]
	}
	if len(rest) < len(" 15:04") || rest[0] != ' ' && rest[0] != 'T' {
		return time.Time{}, false
	}
	if len(rest) == len(" 15:04") {
		rest += ":00"
	}
	// With an explicit location an offset never becomes time.Local by accident.
	t, err := time.ParseInLocation(time.RFC3339Nano, day+"T"+rest[1:]+zone, time.UTC)
	return t, err == nil
}

// timeForm is how a time is stored: RFC 3339 with a fixed number of digits, so texts of one offset
// sort like the times.
const timeForm = "2006-01-02T15:04:05.000000000Z07:00"

// checkValue accepts the values that bind accepts, and leaves others to database/sql, which
// converts them, or calls their Value method, and returns their errors.
func checkValue(v driver.Value) error {
	switch v.(type) {
	case nil, int64, float64, string, []byte, bool, time.Time,
		int, int8, int16, int32, uint8, uint16, uint32, float32:
		return nil
	}
	return driver.ErrSkip
}

// bind sets the i-th parameter, counted from 1.
func (st *statement) bind(i int, v driver.Value) error {
	n := st.native
	switch v := v.(type) {
	case int64:
		return n.BindInt64(i, v)
	case string:
		st.bound += len(v)
		return n.BindText(i, v)
	case int:
		return n.BindInt64(i, int64(v))
	case nil:
		return n.BindNull(i)
	case float64:
		return n.BindFloat(i, v)
	case []byte:
		if v == nil {
			return n.BindNull(i)
		}
		st.bound += len(v)
		return n.BindBlob(i, v)
	case bool:
		return n.BindBool(i, v)
	case time.Time:
		return n.BindText(i, v.Format(timeForm))
	case int8:
		return n.BindInt64(i, int64(v))
	case int16:
		return n.BindInt64(i, int64(v))
	case int32:
		return n.BindInt64(i, int64(v))
	case uint8:
		return n.BindInt64(i, int64(v))
	case uint16:
		return n.BindInt64(i, int64(v))
	case uint32:
		return n.BindInt64(i, int64(v))
	case float32:
		return n.BindFloat(i, float64(v))
	}
	return fmt.Errorf("sqlite: a value of type %T cannot be stored", v)
}

// bindAll sets the parameters of a statement. Those without a name take the arguments without a
// name in their order, beginning after the first skip arguments; those with a name the argument of
// that name or, if no argument has a name, the one in their place. It returns how many arguments it
// used.
func (st *statement) bindAll(args []driver.NamedValue, skip int) (used int, err error) {
	if st.parameters == 0 {
		return 0, nil
	}
	if named(args) {
		return st.bindNamed(args, skip)
	}
	if len(args)-skip < st.parameters {
		return 0, wrongCount("%d arguments for a statement with %d parameters", len(args)-skip, st.parameters)
	}
	for i := range st.parameters {
		if err := st.bind(i+1, args[skip+i].Value); err != nil {
			return 0, err
		}
	}
	return st.parameters, nil
}

// bindNamed is bindAll if some arguments have names. All statements of a text may use these.
func (st *statement) bindNamed(args []driver.NamedValue, skip int) (used int, err error) {
	rest := args[min(skip, len(args)):]
	for i := range st.parameters {
		var arg *driver.NamedValue
		if st.names != nil && st.names[i] != "" {
			for j := range args {
				if args[j].Name == st.names[i][1:] {
					arg = &args[j]
				}
			}
			if arg == nil {
				return 0, fmt.Errorf("sqlite: no argument for the parameter %s", st.names[i])
			}
		} else {
			for len(rest) > 0 && rest[0].Name != "" {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return 0, fmt.Errorf("sqlite: no argument for the parameter in place %d", i+1)
			}
			arg, rest = &rest[0], rest[1:]
		}
		if err := st.bind(i+1, arg.Value); err != nil {
			return 0, err
		}
	}
	return len(args) - skip - len(rest), nil
}

// longest returns the length of the longest text or blob of the arguments.
func longest(args []driver.NamedValue) (n int) {
	for i := range args {
		switch v := args[i].Value.(type) {
		case string:
			n = max(n, len(v))
		case []byte:
			n = max(n, len(v))
		}
	}
	return n
}

// named reports whether some argument has a name.
func named(args []driver.NamedValue) bool {
	for i := range args {
		if args[i].Name != "" {
			return true
		}
	}
	return false
}

// leftOver returns an error if, without names, not all arguments were used.
func leftOver(args []driver.NamedValue, used int) error {
	if used < len(args) && !named(args) {
		return wrongCount("%d arguments for statements with %d parameters", len(args), used)
	}
	return nil
}

// wrongCount is the error for more or fewer arguments than parameters, with SQLite's code for it.
func wrongCount(format string, given, used int) error {
	return &Error{Code: int(sqlite3.RANGE), Message: fmt.Sprintf(format, given, used)}
}
