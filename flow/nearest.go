package flow

import (
	"fmt"
	"strings"
)

// Nearest returns the hint that names the known word closest to one that is not known; "" where none is close.
func Nearest(word string, known []string) string { return didYouMean(word, known) }

// didYouMean is a hint at the known word that a misspelt one is most likely meant to be, or "".
func didYouMean(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// nearest returns the known word with the fewest changes, or "" where more than a third of the letters would change.
func nearest(word string, known []string) string {
	best, bestDistance := "", len(word)/3+2
	lower := strings.ToLower(word)
	for _, candidate := range known {
		if len(word) > 3 && strings.HasPrefix(strings.ToLower(candidate), lower) {
			return candidate // cut short
		}
	}
	for _, candidate := range known {
		if abs(len(candidate)-len(word)) >= bestDistance {
			continue
		}
		d := editDistance(lower, strings.ToLower(candidate))
		if d < bestDistance && d < len(candidate) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
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

// orList joins words as a sentence does: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
