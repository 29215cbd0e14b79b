package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxSize is how many bytes a document may have.
	MaxSize = 4 << 20
	// maxDepth limits nesting, and with it the recursion of everything that walks over a document.
	maxDepth = 100
	// maxNodes limits how large aliases can make a small document.
	maxNodes = 2_000_000
)

// Parse reads a document and reports what makes it unreadable, and keys that are given twice. It returns nil if the
// document is unreadable or empty.
func Parse(r *Reports, text string) *Node {
	n := parse(r, text)
	if n != nil {
		duplicates(r, n)
	}
	return n
}

func parse(r *Reports, text string) *Node {
	if len(text) > MaxSize {
		r.Fail(Pos{1, 1}, "split it, or put its data in other files",
			"the document has %d bytes, the limit is %d (4 MiB)", len(text), MaxSize)
		return nil
	}
	if !utf8.ValidString(text) {
		failInvalid(r, text)
		return nil
	}
	text = strings.TrimPrefix(text, "\ufeff")
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if strings.HasPrefix(trimmed, "{") {
		n, err := readJSON(text)
		if err == nil {
			return n
		}
		// A text that begins like JSON and is not JSON may still be YAML, whose flow mappings look alike.
		if strings.HasSuffix(r.Source.Name, ".json") {
			r.Add(err)
			return nil
		}
	}
	return readYAML(r, text)
}

func failInvalid(r *Reports, text string) {
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if c == utf8.RuneError && size == 1 {
			line := strings.Count(text[:i], "\n") + 1
			col := utf8.RuneCountInString(text[strings.LastIndexByte(text[:i], '\n')+1:i]) + 1
			r.Fail(Pos{line, col}, "save the file as UTF-8", "invalid UTF-8: byte 0x%02x", text[i])
			return
		}
		i += size
	}
}

func readYAML(r *Reports, text string) (n *Node) {
	defer func() {
		// The YAML library reads people's input; a panic in it means a document that it cannot read.
		if p := recover(); p != nil {
			r.Fail(Pos{1, 1}, "", "not readable as YAML: %v", p)
			n = nil
		}
	}()
	tokens := lexer.Tokenize(text)
	if at, why := hostile(tokens); why != "" {
		r.Fail(at, "", "%s", why)
		return nil
	}
	file, err := parser.Parse(withNulls(tokens), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		// The library's own text of an error holds an excerpt of the document, made at great cost.
		at, msg := Pos{1, 1}, ""
		var syntax yaml.Error
		if !errors.As(err, &syntax) {
			msg = err.Error()
		} else {
			msg = syntax.GetMessage()
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				at = Pos{t.Position.Line, t.Position.Column}
			}
		}
		r.Fail(at, "", "not readable as YAML: %s", msg)
		return nil
	}
	y := yamlReader{Reports: r}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if n != nil {
			r.Fail(place(doc.Body), "put each document in a file of its own", "a second document in one file")
			return nil
		}
		n = y.node(doc.Body)
	}
	if n != nil && y.tooLarge {
		r.Fail(n.Pos, "", "the document's aliases expand to more than %d values", maxNodes)
		return nil
	}
	return n
}

// yamlReader makes nodes of the library's syntax tree.
type yamlReader struct {
	*Reports
	anchors  map[string]*Node
	merged   *Node // the mapping that a << was last laid into
	tooLarge bool
}

func place(n ast.Node) Pos {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return Pos{1, 1}
	}
	return Pos{t.Position.Line, t.Position.Column}
}

func (y *yamlReader) node(n ast.Node) *Node {
	if n == nil {
		return &Node{size: 1}
	}
	out := &Node{Pos: place(n), size: 1}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.Kind = Mapping
		var merges []*ast.MappingValueNode // last: the mapping's own keys come first, wherever << is
		for _, pair := range n.Values {
			if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
				merges = append(merges, pair)
				continue
			}
			y.pair(out, pair)
		}
		for _, pair := range merges {
			y.pair(out, pair)
		}
	case *ast.MappingValueNode:
		out.Kind = Mapping
		y.pair(out, n)
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range n.Values {
			out.Push(y.node(item))
		}
	case *ast.AnchorNode:
		out = y.node(n.Value)
		if y.anchors == nil {
			y.anchors = map[string]*Node{}
		}
		y.anchors[n.Name.GetToken().Value] = out
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target := y.anchors[name]
		if target == nil {
			y.Fail(out.Pos, "", "no anchor &%s before this alias", name)
			return out
		}
		out = target
	case *ast.TagNode:
		return y.tagged(n, out)
	default:
		y.scalar(n, out)
	}
	if out.size > maxNodes {
		y.tooLarge = true
		return &Node{Pos: out.Pos, size: 1}
	}
	return out
}

// tagged reads a value with a tag. Only the tags of plain data are known.
func (y *yamlReader) tagged(n *ast.TagNode, out *Node) *Node {
	tag := n.GetToken().Value
	switch tag {
	case "!!str":
		out.Kind, out.style = Text, styleUnknown
		if text, ok := n.Value.(*ast.StringNode); ok {
			out.Text = text.Value
		} else if n.Value != nil {
			out.Text = n.Value.GetToken().Value
		}
		return out
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		if n.Value != nil {
			return y.node(n.Value)
		}
	}
	y.Fail(out.Pos, "", "the tag %s cannot be used here", tag)
	return out
}

func (y *yamlReader) scalar(n ast.Node, out *Node) {
	switch n := n.(type) {
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
		switch n.Token.Type {
		case token.SingleQuoteType:
			out.style = styleSingle
		case token.DoubleQuoteType:
			out.style = styleDouble
		default:
			out.style = stylePlain
			// YAML's numbers include those of JSON; the library takes 1e3 for a text.
			if n.Token.Type == token.StringType && strings.ContainsAny(n.Value, "eE") && json.Valid([]byte(n.Value)) {
				out.Kind, out.Scalar, out.words = Number, ParseNumber(n.Value), n.Value
				y.bounded(out, n.Value)
			}
		}
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, n.Value.Value
		if n.Start.Type == token.LiteralType {
			out.style = styleLiteral
		}
	case *ast.BoolNode:
		out.Kind, out.Scalar = Bool, n.Value
	case *ast.IntegerNode:
		out.Kind, out.Scalar, out.words = Number, PlainNumber(n.Value), n.Token.Value
	case *ast.FloatNode:
		out.Kind, out.Scalar, out.words = Number, n.Value, n.Token.Value
		y.bounded(out, n.Token.Value)
	case *ast.NullNode:
	case *ast.InfinityNode, *ast.NanNode:
		y.Fail(out.Pos, "", "JSON cannot hold the number %s", n.GetToken().Value)
	default:
		y.Fail(out.Pos, "", "%s cannot be used here", strings.ToLower(fmt.Sprint(n.Type())))
	}
}

// bounded refuses a number that does not fit.
func (y *yamlReader) bounded(n *Node, written string) {
	if tooLarge(n.Scalar) {
		y.Fail(n.Pos, "", "number %s too large", written)
	}
}

// pair adds a field, or all missing fields that a merge key (<<) names.
func (y *yamlReader) pair(out *Node, pair *ast.MappingValueNode) {
	key := place(pair.Key)
	value := &Node{Pos: key, size: 1}
	if pair.Value != nil {
		value = y.node(pair.Value)
	}
	if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
		if y.merged == out {
			y.Fail(key, "write <<: [*a, *b]", "a mapping takes << once")
			return
		}
		y.merge(out, value)
		y.merged = out
		return
	}
	name, ok := keyText(pair.Key)
	if !ok {
		y.Fail(key, "", "a key must be a text")
		return
	}
	if value.Kind == Null && value.Pos == (Pos{1, 1}) {
		value.Pos = key
	}
	out.Add(name, key, value)
}

func (y *yamlReader) merge(out, value *Node) {
	from := []*Node{value}
	if value.Kind == List {
		from = value.Items
	}
	have := make(map[string]bool, len(out.Fields))
	for _, f := range out.Fields {
		have[f.Name] = true
	}
	for _, source := range from {
		if source.Kind != Mapping {
			y.Fail(source.Pos, "", "<< takes a mapping, not %s", source.Kind)
			return
		}
		for _, f := range source.Fields {
			if !have[f.Name] {
				have[f.Name] = true
				out.Add(f.Name, f.Pos, f.Value)
			}
		}
	}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, true
	}
	return "", false
}
