package conformance

import (
	"fmt"
	"strings"
	"time"
)

// stevora makes up a definition of every type of step, and the events that arrive.
func (g *generator) stevora() (string, map[string][]try, sent) {
	script := map[string][]try{}
	var events sent
	event := func(name, payload string) {
		events = append(events, struct {
			after         time.Duration
			name, payload string
		}{time.Duration(g.IntN(8000)) * time.Millisecond, name, payload})
	}
	n := 2 + g.IntN(8)
	steps := make([]string, n)
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		retry := fmt.Sprintf(`"retry": {"maxAttempts": %d, "backoffMs": %d, "backoffMultiplier": %s}`, 1+g.IntN(4),
			100+g.IntN(3000), g.pick("1", "1.5", "3"))
		switch kind := g.IntN(10); {
		case kind < 2 && i+2 < n:
			steps[i] = fmt.Sprintf(`{"type": "condition", "name": %q, "expression": %q, "trueStep": "s%d",
    "falseStep": "s%d"}`, name,
				g.pick("x", "mail", "paid.by", "none"), i+1+g.IntN(n-i-1), i+1+g.IntN(n-i-1))
		case kind == 2:
			steps[i] = fmt.Sprintf(`{"type": "wait", "name": %q, %s}`, name,
				g.pick(fmt.Sprintf(`"durationMs": %d`, g.IntN(9000)), `"untilTimestamp": "2000-01-01T00:00:03Z"`))
		case kind == 3:
			steps[i] = fmt.Sprintf(`{"type": "external_event", "name": %q, "signalType": "paid%d", "timeoutMs": %d}`,
				name, i%2, 1+g.IntN(9000))
			event(fmt.Sprintf("paid%d", i%2), g.pick(`{"paid": {"by": "ada"}}`, `"plain"`, `{}`))
		case kind == 4:
			steps[i] = fmt.Sprintf(`{"type": "approval", "name": %q, "contentKey": "mail", "timeoutMs": %d}`, name,
				1+g.IntN(9000))
			event("approval."+name, g.pick(`{"decision": "approved"}`,
				`{"decision": "edited", "editedContent": {"a": 1}}`))
		case kind == 5:
			script[name] = free(g.tries())
			steps[i] = fmt.Sprintf(`{"type": "llm", "name": %q, "model": "m", "messages": [{"role": "user",
    "content": "{{input.name}}: {{mail}} {{state.x}}"}], %s}`, name, retry)
		default:
			script[name] = free(g.tries())
			steps[i] = fmt.Sprintf(`{"type": "task", "name": %q, "handler": %q, %s}`, name,
				g.pick("call", "call", "other"), retry)
		}
	}
	return strings.Join(steps, ",\n"), script, events
}

// aether makes up a dag of tasks, loops, dags and waits, and what arrives for those that wait.
func (g *generator) aether() (spec, tasks, templates string, script map[string][]try, events sent) {
	script = map[string][]try{"body": free(g.tries()), "deep": free(g.tries())}
	n := 2 + g.IntN(7)
	list := make([]string, n)
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		script[name] = free(g.tries())
		var fields []string
		need := ""
		if i > 0 && g.IntN(3) > 0 {
			need = fmt.Sprintf("t%d", g.IntN(i))
			fields = append(fields, fmt.Sprintf(`"dependencies": [%q]`, need))
			switch g.IntN(4) {
			case 0:
				fields = append(fields, fmt.Sprintf(`"when": "tasks.%s.phase %s 'Succeeded'"`, need,
					g.pick("==", "!=")))
			case 1:
				fields = append(fields, fmt.Sprintf(`"when": "tasks.%s.code %s"`, need,
					g.pick("== 0", "> 1", "in [2, 4]")))
			}
		}
		leaf := true
		switch kind := g.IntN(10); {
		case kind < 2:
			fields, leaf = append(fields, fmt.Sprintf(`"template": %q`, g.pick("inner", "fixed", "again"))), false
		case kind == 2 && need != "":
			fields, leaf = append(fields, `"template": "listed"`,
				fmt.Sprintf(`"arguments": {"parameters": [{"name": "of",
    "value": "{{tasks.%s.outputs.parameters.list}}"}]}`, need)), false
		case kind == 3:
			fields, leaf = append(fields, `"executor": {"type": "wait"}`,
				fmt.Sprintf(`"timeout": "%dms"`, 500+g.IntN(9000))), false
			events = append(events, struct {
				after         time.Duration
				name, payload string
			}{time.Duration(g.IntN(6000)) * time.Millisecond, "resume." + name, `{"o": 1, "list": ["r"]}`})
		case kind == 4:
			fields = append(fields, g.pick(`"executor": {"type": "subtree"}`, `"template": "judged"`,
				`"executor": {"type": "ask"}`))
		case kind == 5 && need != "":
			fields = append(fields, `"template": "work"`,
				fmt.Sprintf(`"arguments": {"parameters": [{"name": "from",
    "value": "{{tasks.%s.outputs.parameters.o}} {{tasks.%s.phase}}"}]}`, need, need))
		default:
			fields = append(fields, `"template": "work"`)
		}
		if leaf && g.IntN(2) == 0 {
			fields = append(fields, fmt.Sprintf(`"timeout": "%dms"`, 500+g.IntN(9000)))
		}
		if leaf {
			fields = append(fields, g.aetherRetry(name)...)
		}
		if g.IntN(3) > 0 {
			fields = append(fields, fmt.Sprintf(`"continueOn": {"failed": %s, "error": %s, "timeout": %s}`,
				g.pick("true", "false"), g.pick("true", "false"), g.pick("true", "false")))
		}
		list[i] = fmt.Sprintf(`{"name": %q, %s}`, name, strings.Join(fields, ", "))
	}
	templates = `,
{"dag": {"name": "inner", "continueOn": {"failed": true}, "outputs": {"parameters": [{"name": "o",
    "valueFrom": {"parameter": "tasks.deep.outputs.parameters.o"}},
  {"name": "list", "valueFrom": {"expression": "concat(tasks.deep.outputs.parameters.list ?? [], ['more'])"}}]},
      ` + g.pick(`"entrypoints": ["deep"],`, "") + ` "tasks": [
  {"name": "deep", "template": "work", "retry": {"limit": 1}}, {"name": "deeper", "template": "fixed",
      "dependencies": ["deep"]}, {"name": "other", "template": "body"}]}},
{"task": {"name": "judged", "executor": {"type": "echo"}, "phaseConditions": {"succeeded": "code == 3",
    "failed": "outputs.parameters.o == 2 || phase == 'Timeout'"},
  "outputs": {"parameters": [{"name": "o", "value": "none"}, {"name": "list"}]}}},
{"loop": {"name": "fixed", "items": ["x", {"k": 2}, "y"],
    "maxIterations": ` + g.pick("0", "2") + `, "concurrency": ` + g.pick("0", "1") + `, "body": "body",
    "arguments": {"parameters": [{"name": "of", "value": "{{iterator.item}} at {{iterator.index}}"}]}}},
{"loop": {"name": "listed", "inputs": {"parameters": [{"name": "of"}]}, "itemsFrom": "inputs.parameters.of",
    "body": "body", "aggregate": {"strategy": "list"}}},
{"loop": {"name": "again",
    "repeatCondition": "` + g.pick("loop_iter.index < 2", "tasks.body.phase != 'Succeeded'") + `",
    "maxIterations": ` + g.pick("2", "5") + `, "body": "body",
    "arguments": {"parameters": [{"name": "of", "value": "{{loop_iter.index}}"}]}}},
{"task": {"name": "body", "executor": {"type": "echo"}}}`
	spec = g.pick("", `"timeout": "20s",`, `"timeout": "0s",`)
	if g.IntN(3) == 0 {
		spec += `"hooks": {"onSuccess": {"template": "work"}, "onFailure": {"template": "work"},
    "onError": {"template": "work"}, "onTimeout": {"template": "work"}, "onExit": {"template": "work"}},`
	}
	return spec, strings.Join(list, ",\n"), templates, script, events
}

func (g *generator) aetherRetry(name string) []string {
	switch g.IntN(4) {
	case 0:
		return []string{fmt.Sprintf(`"retry": {"limit": %d}`, g.IntN(4))}
	case 1:
		return []string{fmt.Sprintf(`"retry": {"limit": %d, "expression": "tasks.%s.phase %s '%s'"}`, g.IntN(4), name,
			g.pick("==", "!="), g.pick("Failed", "Error", "Timeout"))}
	case 2:
		return []string{fmt.Sprintf(`"retry": {"limit": %d,
    "expression": "tasks.%s.code in [2, 3] && tasks.%s.msg != 'no'"}`, g.IntN(4), name, name)}
	default:
		return nil
	}
}
