// Package nearest finds the known word that a misspelt one was most likely meant to be.
package nearest

import (
	"fmt"
	"strings"
)

// maxWord bounds the words that are compared: a longer one is no misspelling, and the comparison would take long.
const maxWord = 64

// Hint names the known word that a misspelt one was most likely meant to be: did you mean "retry"? It is empty if none
// is near.
func Hint(word string, known []string) string {
	if near := Word(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// Word returns the known word that a misspelt one was most likely meant to be, or "" if none is near. It prefers a word
// that begins with the misspelt one (concur: concurrency), and otherwise takes the one with the fewest changes, if they
// change at most a third of the letters and one more.
func Word(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	lower := strings.ToLower(word)
	for _, candidate := range known {
		if len(word) > 3 && strings.HasPrefix(strings.ToLower(candidate), lower) {
			return candidate
		}
	}
	best, fewest := "", len(word)/3+2
	for _, candidate := range known {
		if max(len(candidate)-len(word), len(word)-len(candidate)) >= fewest {
			continue // so many letters at least are added or removed
		}
		n := changes(lower, strings.ToLower(candidate))
		if n < fewest && n < len(candidate) {
			best, fewest = candidate, n
		}
	}
	return best
}

// changes counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b.
func changes(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
