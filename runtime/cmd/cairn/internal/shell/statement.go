package shell

import (
	"bytes"
	"strings"
)

// A tokenKind says what a piece of SQL is, as far as it takes to find out where statements end.
type tokenKind uint8

const (
	blank   tokenKind = iota // white space or a comment
	word                     // a keyword, a name without quotes or a number
	quoted                   // a string or a name in quotes
	end                      // a semicolon
	other                    // anything else, a byte at a time
	partial                  // a string, a name or a comment whose end is missing
)

// nextToken returns the kind and the length of the token that text begins with. A quote that is
// doubled within a string makes two strings of it, which is as good here.
func nextToken(text []byte) (tokenKind, int) {
	// until finds the end of something that begins with n bytes.
	until := func(kind tokenKind, n int, closing string) (tokenKind, int) {
		if i := bytes.Index(text[n:], []byte(closing)); i >= 0 {
			return kind, n + i + len(closing)
		}
		return partial, len(text)
	}
	switch c := text[0]; {
	case c == ';':
		return end, 1
	case space(c):
		n := 1
		for n < len(text) && space(text[n]) {
			n++
		}
		return blank, n
	case bytes.HasPrefix(text, []byte("--")):
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			return blank, i + 1
		}
		return blank, len(text)
	case bytes.HasPrefix(text, []byte("/*")):
		return until(blank, 2, "*/")
	case c == '\'', c == '"', c == '`':
		return until(quoted, 1, string(c))
	case c == '[':
		return until(quoted, 1, "]")
	case letter(c):
		n := 1
		for n < len(text) && letter(text[n]) {
			n++
		}
		return word, n
	}
	return other, 1
}

func space(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' && c != '\v' }

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// A splitter cuts SQL that comes in pieces into statements. The zero value is ready.
//
//  1. A statement ends with a semicolon outside of strings, names in quotes and comments.
//  2. A CREATE TRIGGER ends with the semicolon after an END that follows a semicolon, as for SQLite
//     itself.
//  3. Pieces must not end within a word or between the two bytes that begin a comment: lines do
//     not.
type splitter struct {
	text []byte
	from int // where the statement begins, once it has
	at   int // what is before was looked at
	// head are the first words of the statement, which say whether it is a trigger.
	head []string
	// begun: there is more than white space and comments. open: something before at has no end yet.
	begun, open, trigger bool
	// Within a trigger: the last token was a semicolon, or it was an END after one.
	afterSemicolon, afterEnd bool
}

// add adds a piece.
func (p *splitter) add(piece string) { p.text = append(p.text, piece...) }

// next returns the next statement without its semicolon, and whether one is complete. There are no
// empty ones.
func (p *splitter) next() (string, bool) {
	p.open = false
	for p.at < len(p.text) {
		kind, n := nextToken(p.text[p.at:])
		if kind == partial {
			p.open = true
			return "", false // to be looked at again when there is more
		}
		token := p.text[p.at : p.at+n]
		p.at += n
		switch {
		case kind == blank:
			continue
		case kind != end:
			if !p.begun {
				p.begun, p.from = true, p.at-n
			}
			p.see(kind, token)
			continue
		case p.trigger && !p.afterEnd:
			p.afterSemicolon = true
			continue
		}
		statement := ""
		if p.begun {
			statement = string(bytes.TrimSpace(p.text[p.from : p.at-n]))
		}
		*p = splitter{text: p.text[p.at:]}
		if statement != "" {
			return statement, true
		}
	}
	if !p.begun {
		*p = splitter{}
	}
	return "", false
}

// see follows a token within a statement.
func (p *splitter) see(kind tokenKind, token []byte) {
	const most = 6 // EXPLAIN QUERY PLAN CREATE TEMP TRIGGER
	is := func(name string) bool { return kind == word && strings.EqualFold(string(token), name) }
	p.afterEnd = p.trigger && p.afterSemicolon && is("END")
	p.afterSemicolon = false
	if len(p.head) == most {
		return
	}
	p.head = append(p.head, strings.ToUpper(string(token)))
	head := p.head
	if head[0] == "EXPLAIN" {
		if head = head[1:]; len(head) >= 2 && head[0] == "QUERY" && head[1] == "PLAN" {
			head = head[2:]
		}
	}
	switch {
	case len(head) == 2:
		p.trigger = head[0] == "CREATE" && head[1] == "TRIGGER"
	case len(head) == 3:
		p.trigger = p.trigger ||
			head[0] == "CREATE" && (head[1] == "TEMP" || head[1] == "TEMPORARY") && head[2] == "TRIGGER"
	}
}

// rest returns what is there of a statement that is not complete, "" if it is nothing but white
// space and comments, and begins anew.
func (p *splitter) rest() string {
	text := ""
	switch {
	case p.begun:
		text = string(bytes.TrimSpace(p.text[p.from:]))
	case p.open:
		text = string(bytes.TrimSpace(p.text[p.at:]))
	}
	*p = splitter{}
	return text
}

// pending reports whether a statement has begun, or a comment.
func (p *splitter) pending() bool { return p.begun || p.open }

// statements cuts a whole text into statements. The last one needs no semicolon.
func statements(text string) []string {
	var p splitter
	var all []string
	p.add(text)
	for {
		s, ok := p.next()
		if !ok {
			break
		}
		all = append(all, s)
	}
	if s := p.rest(); s != "" {
		all = append(all, s)
	}
	return all
}

// firstWord returns the keyword that a statement begins with, in capitals.
func firstWord(statement string) string {
	for text := []byte(statement); len(text) > 0; {
		kind, n := nextToken(text)
		switch kind {
		case word:
			return strings.ToUpper(string(text[:n]))
		case blank:
			text = text[n:]
			continue
		}
		break
	}
	return ""
}

// reads reports whether a statement cannot write, whatever follows its first word.
func reads(statement string) bool {
	switch firstWord(statement) {
	case "SELECT", "VALUES", "EXPLAIN":
		return true
	}
	return false
}

// onOneLine writes a statement on one line and without comments; "" if a string in it has several
// lines.
func onOneLine(statement string) string {
	var b strings.Builder
	gap := false
	for text := []byte(statement); len(text) > 0; {
		kind, n := nextToken(text)
		token := text[:n]
		text = text[n:]
		if kind == blank {
			gap = true
			continue
		}
		if bytes.ContainsAny(token, "\r\n") {
			return ""
		}
		if gap && b.Len() > 0 {
			b.WriteByte(' ')
		}
		gap = false
		b.Write(token)
	}
	return b.String()
}
