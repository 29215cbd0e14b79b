package duration

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// day is the largest unit. It is always 24 hours, also on days when clocks change.
const day = 24 * time.Hour

var units = map[string]time.Duration{
	"milliseconds": time.Millisecond, "millisecond": time.Millisecond, "millis": time.Millisecond,
	"milli": time.Millisecond, "ms": time.Millisecond,
	"seconds": time.Second, "second": time.Second, "secs": time.Second, "sec": time.Second, "s": time.Second,
	"minutes": time.Minute, "minute": time.Minute, "mins": time.Minute, "min": time.Minute, "m": time.Minute,
	"hours": time.Hour, "hour": time.Hour, "hrs": time.Hour, "hr": time.Hour, "h": time.Hour,
	"days": day, "day": day, "d": day,
}

// Error describes what is wrong with a text, and where.
type Error struct {
	Text     string // the whole text
	Position int    // position of the offending part, in characters from 1
	Problem  string // description with the offending part: `unknown unit "w"`
	Instead  string // the same amount of time in this grammar, if its meaning is clear: 21d for 3w
}

func (e *Error) Error() string {
	text := fmt.Sprintf("duration: %s at position %d in %q", e.Problem, e.Position, e.Text)
	if e.Instead != "" {
		text += "; write " + e.Instead
	}
	return text
}

// Parse reads a duration. Every error is an [*Error].
func Parse(text string) (time.Duration, error) {
	p := parser{text: text}
	p.skipSpace()
	if p.done() {
		return 0, &Error{Text: text, Position: 1, Problem: "empty text"}
	}
	var sum time.Duration
	for first := true; !p.done(); first = false {
		start := p.at
		amount, err := p.pair(first)
		if err != nil {
			return 0, err
		}
		if amount > math.MaxInt64-sum {
			return 0, p.fail(start, "sum too large with %q", strings.TrimSpace(p.text[start:p.at]))
		}
		sum += amount
		p.skipSpace()
	}
	return sum, nil
}

type parser struct {
	text string
	at   int // the next byte to read; always the start of a character
}

func (p *parser) done() bool { return p.at == len(p.text) }

func (p *parser) skipSpace() { p.take(unicode.IsSpace) }

// take consumes the longest run of characters that match.
func (p *parser) take(match func(rune) bool) string {
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !match(r) })
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return rest[:end]
}

// pair reads one number and its unit. The unit may be missing only if the number is the whole text. In "1h 30" it
// cannot be guessed: 30 may be meant as minutes or as milliseconds.
func (p *parser) pair(first bool) (time.Duration, error) {
	start := p.at
	digits := p.take(isDigit)
	if digits == "" {
		return 0, p.failNumber()
	}
	end := p.at
	p.skipSpace()
	if p.done() && first {
		return p.amount(start, digits, time.Millisecond)
	}
	unitAt := p.at
	name := p.take(unicode.IsLetter)
	if name == "" {
		if !p.done() && p.at == end {
			return 0, p.failNumber()
		}
		return 0, p.fail(start, "missing unit after %q", digits)
	}
	unit, ok := units[name]
	if !ok {
		return 0, p.fail(unitAt, "unknown unit %q", name)
	}
	return p.amount(start, digits, unit)
}

// amount returns digits times unit. The text may have any number of digits, so it checks for overflow before each one.
func (p *parser) amount(start int, digits string, unit time.Duration) (time.Duration, error) {
	limit := int64(math.MaxInt64 / unit)
	var n int64
	for _, digit := range []byte(digits) {
		d := int64(digit - '0')
		if n > (limit-d)/10 {
			return 0, p.fail(start, "number %q too large", digits)
		}
		n = n*10 + d
	}
	return time.Duration(n) * unit, nil
}

// failNumber describes the text that was found in place of a number, or of its next digit.
func (p *parser) failNumber() error {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	found := p.text[p.at : p.at+size]
	switch {
	case r == '+' || r == '-':
		return p.fail(p.at, "sign %q not allowed", found)
	case r == '.' || r == ',':
		return p.fail(p.at, "decimal point %q not allowed", found)
	case unicode.IsLetter(r):
		at := p.at
		return p.fail(at, "missing number before %q", p.take(unicode.IsLetter))
	}
	return p.fail(p.at, "unexpected %q", found)
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{
		Text:     p.text,
		Position: utf8.RuneCountInString(p.text[:at]) + 1,
		Problem:  fmt.Sprintf(format, args...),
		Instead:  instead(p.text),
	}
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
