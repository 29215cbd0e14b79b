package policy

import (
	"fmt"
	"slices"
	"strings"
)

// The names of these values in flow files, in JSON and in the history. Do not change them: journals contain them.
var (
	kindNames  = []string{"", "error", "failed", "timeout", "cancelled", "lost"}
	limitNames = []string{
		"", "execution", "run", "scheduleToClose", "deadline", "scheduleToStart", "startToClose", "heartbeat",
		"inactivity", "wait", "task",
	}
	reasonNames = []string{
		"", "cancelled", "timeout_not_retryable", "non_retryable", "not_matched", "expression_error",
		"attempts_exhausted", "retries_off", "no_time_left", "worker_lost", "skipped", "operator",
	}
	expireNames = []string{"fail", "cancel"}
	jitterNames = []string{"uniform", "decorrelated"}
)

// String returns the kind's name; the zero Kind has none.
func (k Kind) String() string { return nameOf(kindNames, k) }

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return marshalName("failure kind", kindNames, k) }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	return unmarshalName("failure kind", kindNames, k, text)
}

// String returns the limit's name; LimitNone has none.
func (k LimitKind) String() string { return nameOf(limitNames, k) }

// MarshalText writes the limit's name.
func (k LimitKind) MarshalText() ([]byte, error) { return marshalName("limit", limitNames, k) }

// UnmarshalText reads a limit's name.
func (k *LimitKind) UnmarshalText(text []byte) error {
	return unmarshalName("limit", limitNames, k, text)
}

// String returns the reason's name; ReasonNone has none.
func (r Reason) String() string { return nameOf(reasonNames, r) }

// MarshalText writes the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return marshalName("stop reason", reasonNames, r) }

// UnmarshalText reads a reason's name.
func (r *Reason) UnmarshalText(text []byte) error {
	return unmarshalName("stop reason", reasonNames, r, text)
}

// String returns fail or cancel.
func (e Expire) String() string { return nameOf(expireNames, e) }

// MarshalText writes fail or cancel.
func (e Expire) MarshalText() ([]byte, error) { return marshalName("expiry", expireNames, e) }

// UnmarshalText reads fail or cancel.
func (e *Expire) UnmarshalText(text []byte) error {
	return unmarshalName("expiry", expireNames, e, text)
}

// String returns uniform or decorrelated.
func (j JitterKind) String() string { return nameOf(jitterNames, j) }

func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

func marshalName[T ~uint8](what string, names []string, v T) ([]byte, error) {
	if int(v) >= len(names) {
		return nil, fmt.Errorf("policy: no %s has the number %d", what, v)
	}
	return []byte(names[v]), nil
}

func unmarshalName[T ~uint8](what string, names []string, v *T, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("policy: %s", unknownName(what, string(text), names))
	}
	*v = T(i)
	return nil
}

// unknownName describes a word that is not known. It suggests a similar known word, or else lists them all.
func unknownName(what, word string, known []string) string {
	known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == "" })
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", what, word, near)
	}
	return fmt.Sprintf("unknown %s %q; use %s", what, word, orList(known))
}

// orList joins words as in a sentence: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// nearest returns the known word that a misspelt word most likely stands for, or "" if none is similar. It looks for,
// in this order: a word with few letters changed (about a third at most), a word that ends with it (runTimeout,
// workflowRunTimeout), and a word that starts like it (retry, retries).
func nearest(word string, known []string) string {
	if len(word) > 64 { // too long for a misspelt word, and slow to compare
		return ""
	}
	best, bestDistance := "", len(word)/3+2
	for _, candidate := range known {
		d := editDistance(strings.ToLower(word), strings.ToLower(candidate))
		if d < bestDistance && d < len(candidate) {
			best, bestDistance = candidate, d
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range known {
		if len(word) > 7 && strings.HasSuffix(strings.ToLower(candidate), strings.ToLower(word)) {
			return candidate
		}
	}
	longest := max(len(word)-2, 3) // the common start must be longer than this
	for _, candidate := range known {
		if n := commonPrefix(strings.ToLower(word), strings.ToLower(candidate)); n > longest {
			best, longest = candidate, n
		}
	}
	return best
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
