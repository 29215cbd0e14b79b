// Package nearest finds the known word that a misspelt one was most likely meant to be.
package nearest

import (
	"fmt"
	"slices"
	"strings"
)

// maxWord limits the words that are compared: a longer one is not a misspelling, and the comparison would take long.
const maxWord = 64

// Hint names the known word that a misspelt one was most likely meant to be: did you mean "retry"? It is empty if none
// is near.
func Hint(word string, known []string) string {
	if near := Word(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// Word returns the known word that a misspelt one was most likely meant to be, or "" if none is near. A word that is
// known itself is not misspelt. Word looks, in this order, for a known word
//   - that begins with the misspelt one (concur: concurrency),
//   - with the fewest changes, at most a third of the letters and one more (exce: exec),
//   - that ends with the misspelt one (runTimeout: workflowRunTimeout),
//   - that begins like it (backofff: backoffCoefficient).
func Word(word string, known []string) string {
	if len(word) > maxWord || slices.Contains(known, word) {
		return ""
	}
	lower := strings.ToLower(word)
	for _, candidate := range known {
		if len(word) > 3 && strings.HasPrefix(strings.ToLower(candidate), lower) {
			return candidate
		}
	}
	if near := fewestChanges(lower, known); near != "" {
		return near
	}
	for _, candidate := range known {
		if len(word) > 7 && strings.HasSuffix(strings.ToLower(candidate), lower) {
			return candidate
		}
	}
	return longestStart(lower, known)
}

// fewestChanges returns the known word with the fewest changes.
func fewestChanges(word string, known []string) string {
	best, fewest := "", len(word)/3+2
	for _, candidate := range known {
		if max(len(candidate)-len(word), len(word)-len(candidate)) >= fewest {
			continue // the least number of letters added or removed
		}
		n := changes(word, strings.ToLower(candidate))
		if n < fewest && n < len(candidate) {
			best, fewest = candidate, n
		}
	}
	return best
}

// longestStart returns the known word that shares the longest start with the word: all of it but a letter or two at
// most.
func longestStart(word string, known []string) string {
	best, longest := "", max(len(word)-2, 3) // the common start must be longer than this
	for _, candidate := range known {
		n, lower := 0, strings.ToLower(candidate)
		for n < len(word) && n < len(lower) && word[n] == lower[n] {
			n++
		}
		if n > longest {
			best, longest = candidate, n
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
