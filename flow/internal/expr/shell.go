package expr

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"mvdan.cc/sh/v3/syntax"

	"github.com/pawl-dev/pawl/internal/tree"
)

// quoteName is the function that makes one word for a shell of a value.
const quoteName = "q"

// quote writes a value as a word that a POSIX shell reads unchanged, and a list as several such words.
func quote(args ...any) (any, error) { return joined(args[0], " ", quoteText) }

// joined writes a value, or the items of a list with a separator between them.
func joined(v any, separator string, write func(any) (string, error)) (string, error) {
	list, ok := ListOf(v)
	if !ok {
		return write(v)
	}
	texts := make([]string, len(list))
	for i, item := range list {
		text, err := write(item)
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
		texts[i] = text
	}
	return strings.Join(texts, separator), nil
}

func quoteText(v any) (string, error) {
	text, err := writtenAs(v)
	if err != nil {
		return "", err
	}
	if strings.Contains(text, "\x00") {
		return "", errors.New("a zero byte cannot stand in a shell's text; give such data by stdin")
	}
	if len(text) > maxText/4 {
		return "", errTooLong
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", nil
}

// useQuote is the advice about an expression that is not safe in a shell's text.
const useQuote = `write ${{ q(…) }}, which quotes it, or give it by env: and use "$NAME"`

// Shell compiles the text of a shell. The value of an expression must not be run: each is quoted by q, and used where a
// quoted word is only a value. Literal text is not looked at further.
func (c *Compiler) Shell(n *tree.Node, vars Vars) *Template {
	t := c.Template(n, vars, true)
	if n == nil || n.Kind != tree.Text || !HasExpression(n.Text) {
		return t
	}
	parts, open := segments(n.Text)
	if open >= 0 {
		return t // reported
	}
	var script strings.Builder
	mark := "PAWLWORD"
	for strings.Contains(n.Text, mark) {
		mark += "X"
	}
	var words []segment
	for _, part := range parts {
		if !part.expression {
			script.WriteString(part.text)
			continue
		}
		p, bad := c.Language.Compile(part.text, vars, false)
		if bad != nil {
			return t // reported
		}
		if !c.Language.quoted(p.code.Node()) {
			c.Report(c.Source.Inside(n, part.offset), useQuote,
				"the shell would run what this expression says")
			return t
		}
		fmt.Fprintf(&script, "%s%dW", mark, len(words))
		words = append(words, part)
	}
	// /bin/sh may be any POSIX shell, and is often Bash: the words must be safe for both. A text that only one of them
	// can read may mean something else to the other once a value is in it.
	unreadable := func(shell string, err error) *Template {
		c.Report(n.Pos, "give values by env: instead of expressions, or correct the text",
			"this text with expressions is not one for %s: %s", shell, shellProblem(err))
		return t
	}
	safe, err := wordsIn(script.String(), mark, syntax.LangPOSIX)
	if err != nil {
		return unreadable("/bin/sh", err)
	}
	inBash, err := wordsIn(script.String(), mark, syntax.LangBash)
	if err != nil {
		return unreadable("Bash, which /bin/sh may be", err)
	}
	safe = slices.DeleteFunc(safe, func(i int) bool { return !slices.Contains(inBash, i) })
	for i, part := range words {
		if !slices.Contains(safe, i) {
			c.Report(c.Source.Inside(n, part.offset),
				`let it stand alone, without quotes around it; or give it by env: and use "$NAME"`,
				"q does not help here: inside of quotes, backquotes, comments, here-documents and arithmetic "+
					"a shell reads quotes in another way")
		}
	}
	return t
}

// shellProblem formats an error of a shell's text, without the name of a file.
func shellProblem(err error) string {
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return e.Text
	}
	if e, ok := errors.AsType[syntax.LangError](err); ok {
		return e.Feature + " is a feature of other shells"
	}
	return err.Error()
}

// plainText matches constants that mean themselves to every shell.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]*$`)

// quoted reports whether the value of an expression is safe as a word of a shell: it is a number, true or false, a
// plain constant, or it was quoted.
func (l *Language) quoted(n ast.Node) bool { return l.safe(n, quoteName, plainText.MatchString) }

// safe reports whether the value of an expression is a number, true or false, a constant of a kind, or the result of
// the function that makes every value safe.
func (l *Language) safe(n ast.Node, function string, constant func(string) bool) bool {
	if l.plain(n) {
		return true
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return constant(n.Value)
	case *ast.ConstantNode:
		text, ok := n.Value.(string)
		return !ok && isPlain(reflect.TypeOf(n.Value)) || ok && constant(text)
	case *ast.ConditionalNode:
		return l.safe(n.Exp1, function, constant) && l.safe(n.Exp2, function, constant)
	case *ast.BinaryNode:
		return n.Operator == "??" && l.safe(n.Left, function, constant) && l.safe(n.Right, function, constant)
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		switch {
		case ok && callee.Value == function:
			return true
		case ok && (callee.Value == plusName || callee.Value == textPlusName):
			return l.safe(n.Arguments[0], function, constant) && l.safe(n.Arguments[1], function, constant)
		}
	}
	return false
}

// plain reports whether the value of an expression is a number, true or false, as its type or the schema of the input
// says.
func (l *Language) plain(n ast.Node) bool {
	if n.Type() != nil && isPlain(n.Type()) {
		return true
	}
	switch n := n.(type) {
	case *ast.UnaryNode:
		return l.plain(n.Node)
	case *ast.BinaryNode:
		return slices.Contains(arithmetic, n.Operator) && l.plain(n.Left) && l.plain(n.Right)
	case *ast.MemberNode, *ast.ChainNode:
		s := (&names{language: l}).shape(n)
		return s != nil && slices.Contains(plainKinds, s.kind)
	}
	return false
}

var (
	arithmetic = []string{"+", "-", "*", "/", "%", "**", "^"} // two that may be texts are added by a call; see plusName
	plainKinds = []string{"integer", "number", "boolean"}
)

func isPlain(t reflect.Type) bool {
	switch {
	case t == nil:
		return false
	case t.Kind() == reflect.Bool, t.Kind() == reflect.Float64:
		return true
	default:
		return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
	}
}

// wordsIn lists which of the marked words of a shell's text are where a quoted word is only a value: an argument, a
// value that is assigned, the file of a redirection, an element of a list or a pattern.
func wordsIn(script, mark string, language syntax.LangVariant) ([]int, error) {
	file, err := syntax.NewParser(syntax.Variant(language)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	number := regexp.MustCompile(`(\\*)` + mark + `(\d+)W`)
	var safe []int
	var around []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		if lit, ok := n.(*syntax.Lit); ok && wordAlone(around) {
			for _, m := range number.FindAllStringSubmatch(lit.Value, -1) {
				var i int
				if _, err := fmt.Sscan(m[2], &i); err == nil && len(m[1])%2 == 0 {
					safe = append(safe, i)
				}
			}
		}
		around = append(around, n)
		return true
	})
	return safe, nil
}

// wordAlone reports whether a literal between these nodes is part of a word in which quotes are allowed.
func wordAlone(around []syntax.Node) bool {
	if len(around) < 2 {
		return false
	}
	for _, n := range around {
		if subst, ok := n.(*syntax.CmdSubst); ok && subst.Backquotes {
			return false
		}
	}
	word, ok := around[len(around)-1].(*syntax.Word)
	if !ok {
		return false
	}
	switch parent := around[len(around)-2].(type) {
	case *syntax.CallExpr, *syntax.WordIter, *syntax.CaseClause, *syntax.CaseItem:
		return true
	case *syntax.Assign:
		return parent.Value == word
	case *syntax.ArrayElem:
		return parent.Value == word
	case *syntax.Redirect:
		return parent.Word == word && parent.Op != syntax.Hdoc && parent.Op != syntax.DashHdoc
	default:
		return false
	}
}
