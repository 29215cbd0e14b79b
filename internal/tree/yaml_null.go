package tree

import "github.com/goccy/go-yaml/token"

// withNulls writes down the nulls that a document leaves out, `noop:` with nothing behind it. The library does so while
// it parses, by moving all tokens that follow, which takes forever in long documents. Only plain cases are handled
// here; the others are left to it.
func withNulls(tokens token.Tokens) token.Tokens {
	out := make(token.Tokens, 0, len(tokens)+len(tokens)/8)
	depth := 0 // depth of brackets
	for i, t := range tokens {
		out = append(out, t)
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.MappingValueType, token.SequenceEntryType:
			if missing(tokens, i, depth) {
				pos := *t.Position
				pos.Column++
				null := token.New("null", " null", &pos)
				null.Type = token.ImplicitNullType
				out = append(out, null)
			}
		default:
		}
	}
	return out
}

// missing reports whether nothing follows the colon or dash at i.
func missing(tokens token.Tokens, i, depth int) bool {
	at := tokens[i]
	next := i + 1
	for next < len(tokens) && tokens[next].Type == token.CommentType {
		next++
	}
	if next == len(tokens) {
		return false
	}
	after := tokens[next]
	if at.Position == nil || after.Position == nil {
		return false
	}
	if depth > 0 {
		return at.Type == token.MappingValueType && i > 0 && isKey(tokens[i-1]) &&
			(after.Type == token.MappingEndType || after.Type == token.CollectEntryType)
	}
	if after.Position.Line <= at.Position.Line {
		return false
	}
	if at.Type == token.SequenceEntryType {
		return after.Type == token.SequenceEntryType && after.Position.Column <= at.Position.Column ||
			beginsPair(tokens, next) && after.Position.Column < at.Position.Column
	}
	if i == 0 || !isKey(tokens[i-1]) || !firstInLine(tokens, i-1) {
		return false
	}
	column := tokens[i-1].Position.Column
	if after.Type == token.SequenceEntryType {
		return after.Position.Column < column
	}
	return after.Position.Column <= column && beginsPair(tokens, next)
}

// isKey reports whether a token is a plain key.
func isKey(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.SingleQuoteType, token.DoubleQuoteType:
		return t.Position != nil
	default:
		return false
	}
}

// beginsPair reports whether a key and its colon are here.
func beginsPair(tokens token.Tokens, i int) bool {
	return i+1 < len(tokens) && isKey(tokens[i]) && tokens[i+1].Type == token.MappingValueType
}

// firstInLine reports whether a token has only dashes before it in its line.
func firstInLine(tokens token.Tokens, i int) bool {
	line := tokens[i].Position.Line
	for i--; i >= 0; i-- {
		t := tokens[i]
		if t.Position == nil || t.Position.Line != line || t.Type == token.CommentType {
			return true
		}
		if t.Type != token.SequenceEntryType {
			return false
		}
	}
	return true
}
