package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// others are names that other systems give to variables, with the name here.
var others = map[string]string{
	"matrix": "item", "needs": "steps", "tasks": "steps", "jobs": "steps", "params": "input", "inputs": "input",
	"parameters": "input", "workflow": "run", "github": "input", "dag_run": "run", "vars": "env",
}

// otherCalls are functions of other systems, with what is written here.
var otherCalls = map[string]string{
	"success":   "leave it out: a step begins if what it needs has succeeded",
	"failure":   "write trigger: anyFailed beside needs, and no when",
	"always":    "write trigger: always beside needs, and no when",
	"cancelled": "what a cancelled run does stands in hooks: {onCancel: …}",
	"format":    "put the value into the text: 'v' + input.version, or v${{ input.version }}",
	"hashFiles": "an expression reads no files: let a step write the sum to $PAWL_OUTPUT",
	"basename":  "an expression knows no paths: split(input.path, '/'), or let a step do it",
	"default":   orElse, "coalesce": orElse, "nvl": orElse, "ifnull": orElse,
	"ternary": "write a ? b : c", "iif": "write a ? b : c", "cond": "write a ? b : c",
	"length": "write len", "size": "write len", "toLower": "write lower", "tolower": "write lower",
	"toUpper": "write upper", "toupper": "write upper", "substr": slice, "substring": slice,
	"str": "write string", "toString": "write string", "number": "write int or float", "parseInt": "write int",
	"toInt": "write int", "parseFloat": "write float", "fromJson": "write fromJSON", "parseJSON": "write fromJSON",
	"toJson": "write toJSON", "strip": "write trim", "range": "write 0..9 for the numbers from 0 to 9",
	"match": matching, "regex": matching, "regexMatch": matching, "test": matching,
	"today": dated, "strftime": dated, "formatDate": dated, "getenv": "declare it under env, and write env.NAME",
	"random": chance, "uuid": chance, "rand": chance,
}

const (
	orElse   = "write input.a ?? 'a default'"
	slice    = "write input.text[0:3]"
	matching = "write input.tag matches '^v[0-9]+$'"
	dated    = "write now.Format('2006-01-02')"
	chance   = "there is no chance in an expression; run.id is another one in each run"
)

// call reports a call of a function of another system whose name is a variable's here.
func (n *names) call(at *ast.CallNode) {
	callee, ok := at.Callee.(*ast.IdentifierNode)
	if !ok || callee.Value != "failure" {
		return
	}
	n.bad = nil
	n.fail(callee.Location().From, otherCalls[callee.Value], "failure is no function")
}

// called returns what is written here in place of a function that does not exist.
func called(name string) string {
	if own := otherCalls[name]; own != "" {
		return own
	}
	known := slices.Sorted(maps.Keys(builtin.Index))
	for _, f := range functions {
		if !slices.Contains(known, f.name) && !strings.HasPrefix(f.name, "$") {
			known = append(known, f.name)
		}
	}
	return nearest.Hint(name, known)
}

// anOperator finds an operator that is written as a function: startsWith(a, 'b').
var anOperator = regexp.MustCompile(`^(startsWith|endsWith|contains|matches|in)\s*\(`)

// operator finds its arguments where they are simple.
var operator = regexp.MustCompile(`^(\w+)\s*\(([^(),]+),([^(),]+)\)`)

// asOperator explains an operator that is written as a function; false: that is not what is wrong.
func asOperator(text string, bad *Problem) bool {
	rest := text[min(bad.Offset, len(text)):]
	m := anOperator.FindStringSubmatch(rest)
	if m == nil || !strings.HasPrefix(bad.Msg, "unexpected token Operator(") {
		return false
	}
	left, right := "TEXT", "PART"
	if all := operator.FindStringSubmatch(rest); all != nil {
		left, right = strings.TrimSpace(all[2]), strings.TrimSpace(all[3])
	}
	bad.Msg = m[1] + " stands between two values"
	bad.Hint = fmt.Sprintf("write %s %s %s", left, m[1], right)
	return true
}
