// Package match compiles the text of a search to a query of SQLite's FTS5. The grammar is its own:
//
//	red apple          both words
//	"red apple"        the words in this order
//	app*               words that begin with it; also "red app"*
//	red OR green       either
//	apple NOT red      without it; also apple -red
//	NEAR(red apple, 5) up to 5 words between them; without a number 10
//	title:apple        in one field; also title:"red apple" and title:(red OR green)
//	(red OR green) apple
//
// AND binds more tightly than OR, and may be written. Characters in a word that the tokenizer does
// not take divide it: its parts must stand together. A word with only such characters is left out.
package match

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxDepth    = 16 // of parentheses
	defaultNear = 10
	maxNear     = 1_000
	maxPhrases  = 32 // words and phrases, each of which FTS5 looks for by itself
)

// Column is the name of the column that has a field.
func Column(field int) string { return "c" + strconv.Itoa(field) }

// Compile compiles a text for an index with these fields, in the order of their columns. The error
// says what is wrong with the text.
func Compile(text string, fields []string, tokenizer string) (string, error) {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", " "), "\uFFFD") // FTS5 reads up to a zero byte
	p := parser{rest: text, fields: fields, tokenizer: tokenizer}
	e, err := p.any(0)
	switch {
	case err != nil:
		return "", err
	case p.next() == ')':
		return "", errors.New("has a ) that nothing opens")
	case phrases(e) > maxPhrases:
		return "", fmt.Errorf("has more than %d words and phrases", maxPhrases)
	case e != "":
		return e, nil
	case p.short:
		return "", errors.New("has no word of 3 characters, which trigram needs")
	}
	return "", errors.New("has no word")
}

// phrases counts the words and phrases of an expression.
func phrases(e string) (n int) {
	for quoted, i := false, 0; i < len(e); i++ {
		switch {
		case e[i] != '"':
		case quoted && strings.HasPrefix(e[i+1:], `"`):
			i++
		default:
			if quoted = !quoted; quoted {
				n++
			}
		}
	}
	return n
}

// A parser reads a text from left to right. Expressions are texts for FTS5, each of which can stand
// anywhere; "" means that there is no word.
type parser struct {
	rest      string
	fields    []string
	tokenizer string
	short     bool // a word was left out because trigram does not find it
}

// next skips blanks, and returns the first character of the rest; 0 at the end.
func (p *parser) next() byte {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// keyword skips a word if it comes next, as a whole.
func (p *parser) keyword(word string) bool {
	p.next()
	after, ok := strings.CutPrefix(p.rest, word)
	if r, _ := utf8.DecodeRuneInString(after); !ok ||
		after != "" && !unicode.IsSpace(r) && !strings.ContainsRune(`()"`, r) {
		return false
	}
	p.rest = after
	return true
}

// any reads alternatives, up to the end or a closing parenthesis.
func (p *parser) any(depth int) (string, error) {
	var found []string
	for first := true; ; first = false {
		e, err := p.all(depth, first)
		if err != nil {
			return "", err
		}
		if e != "" {
			found = append(found, e)
		}
		if !p.keyword("OR") {
			return joined(found, " OR "), nil
		}
	}
}

// joined joins expressions, each of them once.
func joined(list []string, by string) string {
	seen := make(map[string]bool)
	list = slices.DeleteFunc(list, func(e string) bool {
		again := seen[e]
		seen[e] = true
		return again
	})
	if len(list) > 1 {
		return "(" + strings.Join(list, by) + ")"
	}
	return strings.Join(list, "")
}

// all reads what must match together, and what must not. first: it is the first of several
// alternatives.
func (p *parser) all(depth int, first bool) (string, error) {
	var with, without []string
	for units := 0; ; units++ {
		operator := ""
		if units > 0 && p.keyword("AND") {
			operator = "AND"
		}
		not := p.keyword("NOT")
		if not {
			operator = "NOT"
		} else if p.next() == '-' && len(p.rest) > 1 && !unicode.IsSpace(rune(p.rest[1])) {
			p.rest, operator, not = p.rest[1:], "-", true
		}
		if c := p.next(); c == 0 || c == ')' || p.sees("OR") || p.sees("AND") {
			switch {
			case operator != "":
				return "", fmt.Errorf("has nothing after %s", operator)
			case units == 0 && p.sees("OR"):
				return "", errors.New("has nothing before OR")
			case units == 0 && p.sees("AND"):
				return "", errors.New("has nothing before AND")
			case units == 0 && !first:
				return "", errors.New("has nothing after OR")
			case units == 0 && depth > 0:
				return "", errors.New("has parentheses without a word")
			}
			break
		}
		e, err := p.unit(depth)
		switch {
		case err != nil:
			return "", err
		case e == "":
		case not:
			without = append(without, e)
		default:
			with = append(with, e)
		}
	}
	e := joined(with, " AND ")
	switch {
	case len(without) == 0:
		return e, nil
	case e == "":
		return "", errors.New("says only what to leave out")
	}
	return "(" + e + " NOT " + joined(without, " OR ") + ")", nil
}

// sees reports whether a keyword comes next.
func (p *parser) sees(word string) bool {
	q := *p
	return q.keyword(word)
}

// unit reads a word, a phrase, a NEAR, a text in parentheses, or one of them in a field.
func (p *parser) unit(depth int) (string, error) {
	if after, ok := strings.CutPrefix(p.rest, "NEAR("); ok {
		p.rest = after
		return p.near()
	}
	switch p.next() {
	case '(':
		if depth++; depth > maxDepth {
			return "", fmt.Errorf("has more than %d parentheses around each other", maxDepth)
		}
		p.rest = p.rest[1:]
		e, err := p.any(depth)
		if err != nil {
			return "", err
		}
		if p.next() != ')' {
			return "", errors.New("has a ( that nothing closes")
		}
		p.rest = p.rest[1:]
		return e, nil
	case '"':
		return p.phrase()
	}
	column, err := p.field()
	if err != nil {
		return "", err
	}
	if column == "" {
		return p.word(`()"`), nil
	}
	if c := p.next(); c == 0 || c == ')' {
		return "", errors.New("has a field without a word")
	}
	if depth++; depth > maxDepth {
		return "", fmt.Errorf("has more than %d fields around each other", maxDepth)
	}
	e, err := p.unit(depth)
	if err != nil || e == "" {
		return "", err
	}
	return "(" + column + " : (" + e + "))", nil
}

// field skips the name of a field, and returns its column; "" if there is none.
func (p *parser) field() (column string, err error) {
	longest := -1
	for i, f := range p.fields {
		if strings.HasPrefix(p.rest, f+":") && (longest < 0 || len(f) > len(p.fields[longest])) {
			longest = i
		}
	}
	if longest >= 0 {
		p.rest = p.rest[len(p.fields[longest])+1:]
		return Column(longest), nil
	}
	word := p.rest[:p.end(`()"`)]
	if name, _, ok := strings.Cut(word, ":"); ok && name != "" {
		return "", fmt.Errorf("names the field %.40q, which the index does not have; put in quotes what is none", name)
	}
	return "", nil
}

// end returns where the next word ends.
func (p *parser) end(at string) int {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(at, r) })
	if end < 0 {
		return len(p.rest)
	}
	return end
}

// word reads a word, up to a blank or a character of a set.
func (p *parser) word(at string) string {
	end := p.end(at)
	text := p.rest[:end]
	p.rest = p.rest[end:]
	bare := strings.TrimRight(text, "*")
	return p.quoted(bare, bare != text)
}

// phrase reads a text in quotes; two quotes are one.
func (p *parser) phrase() (string, error) {
	var b strings.Builder
	for rest := p.rest[1:]; ; {
		part, after, closed := strings.Cut(rest, `"`)
		if !closed {
			return "", errors.New("has a quote that nothing closes")
		}
		b.WriteString(part)
		if again, two := strings.CutPrefix(after, `"`); two {
			b.WriteByte('"')
			rest = again
			continue
		}
		p.rest = strings.TrimLeft(after, "*")
		return p.quoted(b.String(), p.rest != after), nil
	}
}

// near reads the rest of a NEAR.
func (p *parser) near() (string, error) {
	var found []string
	distance := defaultNear
	for {
		switch p.next() {
		case 0:
			return "", errors.New("has a NEAR( that nothing closes")
		case '(':
			return "", errors.New("has a NEAR of more than words and phrases")
		case ',':
			var ok bool
			if distance, ok = p.distance(); !ok {
				return "", fmt.Errorf("has a NEAR whose words are not followed by a comma, 0 to %d, and )", maxNear)
			}
			return nearby(found, distance), nil
		case ')':
			p.rest = p.rest[1:]
			return nearby(found, distance), nil
		case '"':
			e, err := p.phrase()
			if err != nil {
				return "", err
			}
			found = append(found, e)
		default:
			found = append(found, p.word(`()",`))
		}
	}
}

// distance reads a comma, a number and a closing parenthesis.
func (p *parser) distance() (int, bool) {
	text, after, closed := strings.Cut(p.rest[1:], ")")
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	p.rest = after
	return int(n), closed && err == nil && n <= maxNear
}

func nearby(phrases []string, distance int) string {
	phrases = slices.DeleteFunc(phrases, func(e string) bool { return e == "" })
	if len(phrases) < 2 {
		return strings.Join(phrases, "")
	}
	return "NEAR(" + strings.Join(phrases, " ") + ", " + strconv.Itoa(distance) + ")"
}

// quoted returns a text for FTS5, or "" if its tokenizer finds nothing in it.
func (p *parser) quoted(text string, prefix bool) string {
	if !p.finds(text) {
		return ""
	}
	text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	if prefix {
		return text + " *"
	}
	return text
}

// finds reports whether a text has characters that the tokenizer takes.
func (p *parser) finds(text string) bool {
	switch p.tokenizer {
	case "trigram":
		if text != "" && utf8.RuneCountInString(text) < 3 {
			p.short = true
			return false
		}
		return text != ""
	case "ascii":
		return strings.IndexFunc(text, func(r rune) bool {
			return r >= 0x80 || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z'
		}) >= 0
	}
	return strings.IndexFunc(text, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }) >= 0
}
