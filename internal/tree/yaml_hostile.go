package tree

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// maxKeys is how many keys one mapping may have; the library takes the square of their number.
const maxKeys = 10_000

// hostile looks for input that would keep the parser busy forever or exhaust its stack, before it is parsed: very deep
// nesting and very large mappings. It reports where and why, or "" if there is nothing.
func hostile(tokens token.Tokens) (Pos, string) {
	var h hostility
	for _, t := range tokens {
		if t.Position == nil {
			continue
		}
		if why := h.look(t); why != "" {
			return Pos{t.Position.Line, t.Position.Column}, why
		}
		h.last = t
	}
	return Pos{}, ""
}

type hostility struct {
	last     *token.Token
	line     int
	inLine   int   // number of levels that begin on this line
	brackets []int // entries of each open bracket
	blocks   []block
}

// block is an open mapping that is nested by indentation.
type block struct{ column, keys int }

func (h *hostility) look(t *token.Token) string {
	if t.Position.Line != h.line {
		h.line, h.inLine = t.Position.Line, 0
	}
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		h.brackets = append(h.brackets, 0)
	case token.SequenceEndType, token.MappingEndType:
		h.brackets = h.brackets[:max(len(h.brackets)-1, 0)]
	case token.MappingValueType:
		if n := len(h.brackets); n > 0 {
			h.brackets[n-1]++
			break
		}
		if h.last != nil {
			h.key(h.last.Position.Column)
		}
	case token.SequenceEntryType:
		if len(h.brackets) == 0 {
			h.inLine++
			h.leave(t.Position.Column)
		}
	case token.MappingKeyType:
		if len(h.brackets) == 0 {
			h.inLine++
			h.key(t.Position.Column)
		}
	case token.AnchorType, token.TagType:
		if len(h.brackets) == 0 {
			h.inLine++
		}
	default:
	}
	switch {
	case len(h.brackets) > maxDepth, len(h.blocks) > maxDepth, h.inLine > maxDepth:
		return fmt.Sprintf("nested more than %d levels deep", maxDepth)
	case len(h.brackets) > 0 && h.brackets[len(h.brackets)-1] > maxKeys,
		len(h.blocks) > 0 && h.blocks[len(h.blocks)-1].keys > maxKeys:
		return fmt.Sprintf("a mapping with more than %d keys", maxKeys)
	}
	return ""
}

// key counts a key of the mapping at its column, which ends those further right.
func (h *hostility) key(column int) {
	h.leave(column)
	if n := len(h.blocks); n > 0 && h.blocks[n-1].column == column {
		h.blocks[n-1].keys++
		return
	}
	h.blocks = append(h.blocks, block{column, 1})
}

// leave ends the mappings right of a column.
func (h *hostility) leave(column int) {
	for n := len(h.blocks); n > 0 && h.blocks[n-1].column > column; n-- {
		h.blocks = h.blocks[:n-1]
	}
}
