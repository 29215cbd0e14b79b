package postgres

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// escape marks a text that PostgreSQL would refuse. It is a character that nobody's text begins with.
const escape = "\x01"

// stored returns a text in its stored form. PostgreSQL accepts neither a zero byte nor bytes that are not UTF-8, and
// both may be in a program's output.
func stored(text string) string {
	if utf8.ValidString(text) && !strings.ContainsRune(text, 0) && !strings.HasPrefix(text, escape) {
		return text
	}
	return escape + hex.EncodeToString([]byte(text))
}

// original returns the text that was stored so.
func original(text string) string {
	if rest, ok := strings.CutPrefix(text, escape); ok {
		if b, err := hex.DecodeString(rest); err == nil {
			return string(b)
		}
	}
	return text
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSeed is the beginning of checksums, so that the one of no bytes is not zero: "Pawl" in ASCII.
const sumSeed = 0x5061776c

func sum(b []byte) int32 { return int32(crc32.Update(sumSeed, castagnoli, b)) }

// check returns an error if the bytes do not match the checksum.
func check(b []byte, want int32) error {
	if sum(b) != want {
		return fmt.Errorf("%w: the checksum of its %d bytes does not match", core.ErrBroken, len(b))
	}
	return nil
}

var readable = regexp.MustCompile(`\{(\w+) ([^}]+)\}`)

// expand fills in how the views for people show a column: "{instant wake}", "{runPhase phase}".
func expand(query string) string {
	return readable.ReplaceAllStringFunc(query, func(match string) string {
		parts := readable.FindStringSubmatch(match)
		column := parts[2]
		switch parts[1] {
		case "instant":
			return "to_timestamp(nullif(" + column + ", 0) / 1e6)"
		case "runPhase":
			return named[core.RunPhase](column)
		case "stepPhase":
			return named[core.StepPhase](column)
		case "stepKind":
			return named[core.StepKind](column)
		case "reason":
			return named[policy.Reason](column)
		case "limit":
			return named[policy.LimitKind](column)
		}
		return match
	})
}

// named prints the value of an enumeration by its name in Go.
func named[T interface {
	~uint8
	String() string
}](column string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CASE %s", column)
	for v := T(0); !strings.HasPrefix(v.String(), "unknown"); v++ {
		fmt.Fprintf(&b, " WHEN %d THEN '%s'", v, v)
	}
	fmt.Fprintf(&b, " ELSE %s::text END", column)
	return b.String()
}
