package schedulerows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// A cronField is one field of a cron expression.
type cronField struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

// cronFields are the fields of an expression; the first may be absent.
var cronFields = []cronField{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// cronNames are the expressions with a name.
var cronNames = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// checkCron says what is wrong with a new expression, in small letters, in terms of its fields. It
// is stricter than parseClock, which must read what older versions stored: a range does not end
// before it begins.
func checkCron(expr string) error {
	fault := func(format string, args ...any) error { return invalid("cron", fmt.Sprintf(format, args...)) }
	switch {
	case len(expr) > maxCron:
		return host.OverLimit("cron bytes", maxCron, int64(len(expr))).With("field", "cron")
	case strings.HasPrefix(expr, "@every"):
		return fault("@every is not an expression; set every_ms")
	case strings.Contains(expr, "="):
		return fault("an expression has no time zone in it; set zone")
	case slices.Contains(cronNames, expr):
		return nil
	case strings.HasPrefix(expr, "@"):
		return fault("%s is not one of %s", quote(expr), strings.Join(cronNames, ", "))
	}
	texts := strings.Fields(expr)
	fields := cronFields[max(len(cronFields)-len(texts), 0):]
	if len(texts) < len(cronFields)-1 || len(texts) > len(cronFields) {
		return fault("%s has %d fields; an expression has 5 (minute, hour, day of month, month, day of week), or 6 with the second first",
			quote(expr), len(texts))
	}
	for i, text := range texts {
		for item := range strings.SplitSeq(text, ",") {
			if reason := fields[i].check(item); reason != "" {
				return fault("%s: %s", fields[i].name, reason)
			}
		}
	}
	return nil
}

// check says what is wrong with one item of a field's list; "" if nothing is.
func (f *cronField) check(item string) string {
	span, step, stepped := strings.Cut(item, "/")
	low, high, ranged := strings.Cut(span, "-")
	lo, hi := f.min, f.max
	if span != "*" && span != "?" {
		ok := false
		if lo, ok = f.value(low); !ok {
			return f.want(low)
		}
		if ranged {
			if hi, ok = f.value(high); !ok {
				return f.want(high)
			}
			if high == "sun" {
				hi = f.max // as the last day
			}
		} else if !stepped {
			hi = lo
		}
	}
	if lo > hi {
		return fmt.Sprintf("the range %s ends before it begins; write it as two ranges", quote(span))
	}
	if !stepped {
		return ""
	}
	// A step leads to a second value, and a step of 1 always does.
	if n, err := strconv.Atoi(step); err != nil || step[0] == '+' || n < 1 || n > max(hi-lo, 1) {
		return fmt.Sprintf("the step %s is not a number from 1 to %d", quote(step), max(hi-lo, 1))
	}
	return ""
}

// value reads a number or name.
func (f *cronField) value(text string) (int, bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.min + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && text[0] != '+' && text[0] != '-' && n >= f.min && n <= f.max
}

// want says that text is no value of the field.
func (f *cronField) want(text string) string {
	if text == "" {
		return "a value is missing"
	}
	names := ""
	if f.names != nil {
		names = fmt.Sprintf(" or a name from %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return fmt.Sprintf("%s is not a number from %d to %d%s", quote(text), f.min, f.max, names)
}
