package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/expr-lang/expr/file"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// Messages of the library about types, in the words of Go.
var (
	unknownField = regexp.MustCompile(`type \*?expr\.(\w+) has no (?:field|method) (\w+)`)
	wrongCall    = regexp.MustCompile(`^cannot use (\S+) as argument \(type (\S+)\) to call (\w+)`)
	conversion   = regexp.MustCompile(`^interface conversion: (?:any|interface \{\}) is (\S+), not (\S+)`)
	operation    = regexp.MustCompile(`^invalid operation: (.+) \(mismatched types (\S+) and (\S+)\)`)
	operand      = regexp.MustCompile(`^invalid operation: (\w+)\((\S+)\)$`)
	operands     = regexp.MustCompile(`^invalid operation: (\S+) (\S+) (\S+)$`)
	fetch        = regexp.MustCompile(`^cannot fetch (\S+) from (\S+)$`)
)

// plainNames are the words of flow files for types of Go.
var plainNames = map[string]string{
	"<nil>": "null", "nil": "null", "string": "a text", "bool": "a boolean", "[]any": "a list", "array": "a list",
	"int": "a number", "int64": "a number", "uint64": "a number", "float64": "a number",
	"json.Number":    largeNumber,
	"map[string]any": "an object", "map": "an object", "time.Time": "an instant", "time.Duration": "a duration",
	"*expr.Step": "a step", "*expr.Run": "the run", "expr.Run": "the run",
}

// largeNumber is the word for a number that is passed on as it is written.
const largeNumber = "a number of more than 64 bits"

// typeWord returns the word of flow files for a type of Go.
func typeWord(name string) string {
	if word := plainNames[name]; word != "" {
		return word
	}
	return strings.TrimPrefix(name, "*expr.")
}

// problemOf reads the library's error.
func problemOf(text string, err error) *Problem {
	bad := &Problem{Msg: err.Error()}
	var e *file.Error
	if errors.As(err, &e) {
		bad = &Problem{Offset: byteOffset(text, e.From), Msg: e.Message}
	}
	if errors.Is(err, errLoops) {
		bad.Msg = errLoops.Error()
	}
	bad.Msg = strings.TrimSpace(strings.ReplaceAll(bad.Msg, "interface {}", "any"))
	switch m := unknownField.FindStringSubmatch(bad.Msg); {
	case m != nil:
		known := fieldsOf(m[1])
		bad.Msg = fmt.Sprintf("%s has no %q", ownerOf(text, m[2], bad.Offset), m[2])
		if bad.Hint = foreignKeys[m[1]+"."+m[2]]; bad.Hint == "" {
			bad.Hint = nearest.Hint(m[2], known)
		}
		if bad.Hint == "" {
			bad.Hint = "known are " + strings.Join(known, ", ")
		}
	case strings.Contains(bad.Msg, "time.Time is not callable"):
		bad.Msg, bad.Hint = "now is a value, not a function", "write now"
	case asOperator(text, bad):
	case bad.Msg == `unexpected token Operator(":")` && strings.Contains(text, "{"):
		bad.Hint = "within map, filter and the like an object stands in parentheses: ({key: #})"
	default:
		bad.Msg = inWords(bad.Msg)
	}
	return bad
}

// foreignKeys are hints for keys that have another name here, by the type and the key.
var foreignKeys = map[string]string{
	"Run.status": isPhase, "Run.state": isPhase, "Run.outcome": isPhase, "Run.result": isPhase,
	"Run.failure": isFailure, "Run.error": isFailure,
	"Step.status": isPhase, "Step.state": isPhase, "Step.outcome": isPhase, "Step.result": `did you mean "output"?`,
	"Step.error": `did you mean "failure"?`, "Failure.error": isMessage, "Failure.reason": isMessage,
	"Failure.text": isMessage,
}

const (
	isPhase   = `did you mean "phase"?`
	isFailure = "hooks have it as failure: write failure?.message"
	isMessage = `did you mean "message"?`
)

// ownerOf returns the part of an expression that a key is taken from, which stands at an offset or near it: steps.a in
// steps.a.status.
func ownerOf(text, key string, offset int) string {
	owner, closest := "it", len(text)+1
	for _, at := range regexp.MustCompile(`([\w.?]*[\w\])'])\??\.`+key+`\b`).FindAllStringSubmatchIndex(text, -1) {
		if far := max(at[1]-offset, offset-at[1]); far < closest {
			owner, closest = text[at[2]:at[3]], far
		}
	}
	if strings.ContainsAny(owner[len(owner)-1:], "])'") { // the end of something longer
		return "it"
	}
	return owner
}

// inWords replaces the library's words for Go's types by those of flow files.
func inWords(msg string) string {
	if m := wrongCall.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%s takes %s, not %s", m[3], typeWord(m[2]), typeWord(m[1]))
	}
	if m := conversion.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("it is %s, not %s", typeWord(m[1]), typeWord(m[2]))
	}
	if m := operation.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%s does not work with %s and %s", m[1], typeWord(m[2]), typeWord(m[3]))
	}
	if m := operand.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%s does not work with %s", m[1], typeWord(m[2]))
	}
	if m := operands.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%s does not work with %s and %s", m[2], typeWord(m[1]), typeWord(m[3]))
	}
	if m := fetch.FindStringSubmatch(msg); m != nil {
		if m[2] == "<nil>" || m[2] == "nil" {
			return fmt.Sprintf("there is no value to take %s from (write ?. where it may be missing)", m[1])
		}
		return fmt.Sprintf("%s has no %q", typeWord(m[2]), m[1])
	}
	return msg
}

// byteOffset converts the library's count of characters.
func byteOffset(text string, runes int) int {
	for i := range text {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(text)
}
