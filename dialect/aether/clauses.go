package aether

import (
	"regexp"
	"slices"
	"strings"
)

// token finds what decides where a clause of a condition ends.
var token = regexp.MustCompile(quotedText + "|`[^`]*`" + `|\.\s*\w+|\w+|[(\[{]|[)\]}]|\|\||&&|\?\.|\?\?|[?|;]`)

// clauses rewrites each clause of a condition: the parts between its ands and ors, within parentheses too. A condition
// with other operators, such as a choice or a pipe, is one clause.
func clauses(text string, rewrite func(string) string) string {
	if inner, ok := unwrapped(text); ok {
		return "(" + clauses(inner, rewrite) + ")"
	}
	for _, operators := range [][]string{{"||", "or"}, {"&&", "and"}} { // an or binds less
		parts := split(text, operators)
		if len(parts) == 1 {
			continue
		}
		for i, p := range parts {
			parts[i] = clauses(p, rewrite)
		}
		return strings.Join(parts, " "+operators[0]+" ")
	}
	return rewrite(text)
}

// split cuts a condition at operators that are not within brackets.
func split(text string, operators []string) []string {
	var parts []string
	depth, from := 0, 0
	for _, at := range token.FindAllStringIndex(text, -1) {
		switch found := text[at[0]:at[1]]; {
		case strings.ContainsAny(found[:1], "([{"):
			depth++
		case strings.ContainsAny(found[:1], ")]}"):
			depth--
		case depth == 0 && slices.Contains([]string{"?", "|", ";"}, found):
			return []string{text}
		case depth == 0 && slices.Contains(operators, found):
			parts = append(parts, text[from:at[0]])
			from = at[1]
		}
	}
	return append(parts, text[from:])
}

// unwrapped removes parentheses that enclose the whole text.
func unwrapped(text string) (string, bool) {
	text = strings.TrimSpace(text)
	depth := 0
	for _, at := range token.FindAllStringIndex(text, -1) {
		switch text[at[0]] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 {
			return text[min(1, len(text)):max(1, len(text)-1)], text[0] == '(' && at[1] == len(text)
		}
	}
	return "", false
}
