package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// steepDocument is a workflow that is made up, with its macros.
type steepDocument struct {
	*generator
	workflow, macros string
	script           map[string][]try

	vars    []string            // declarations
	actions int                 // number of actions so far
	made    map[string][]string // variables by what they hold: one, many
}

// steepServices returns services with policies of their own here and there.
func (g *generator) steepServices() string {
	services := steepServices
	for _, id := range []string{"one", "many", "maybe", "list"} {
		services = strings.Replace(services, "{id: "+id+",", "{id: "+id+", "+g.steepPolicy()+",", 1)
	}
	return strings.ReplaceAll(services, ", ,", ",")
}

func (g *generator) steepPolicy() string {
	var fields []string
	if g.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("retries: {maxAttempts: %d, delay: %dms, exponentialBackoff: %s, "+
			"maxDelay: 2s}", g.IntN(5), g.IntN(3000), g.pick("1", "2", "1.5")))
	}
	for _, clock := range []string{"maxInactivity", "maxRuntime", "deadline"} {
		switch g.IntN(5) {
		case 0:
			fields = append(fields, fmt.Sprintf("%s: {timeout: %dms, errorOnTimeout: %s}", clock,
				500+g.IntN(8000), g.pick("true", "false")))
		case 1:
			fields = append(fields, fmt.Sprintf("%s: %s", clock, g.pick("5s", "1 sec 500ms", "3000", "2 secs")))
		}
	}
	return strings.Join(fields, ", ")
}

// steep makes up a workflow: actions of every kind that read what others make, some of them in iterations and in
// macros, some with dependencies besides.
func (g *generator) steep() *steepDocument {
	d := &steepDocument{generator: g, script: map[string][]try{}, made: map[string][]string{"many": {"words"}}}
	d.vars = append(d.vars, "{id: words, value: [x, y]}", "{id: number, value: 1.0}",
		"{id: nested, value: [[a, b], [c]]}")
	d.made["one"], d.made["many"] = append(d.made["one"], "number"), append(d.made["many"], "nested")
	var list []string
	for range 2 + g.IntN(6) {
		list = append(list, d.action(2))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "api: 4.%d.0\nname: w\n", g.IntN(8))
	if g.IntN(2) == 0 {
		fmt.Fprintf(&b, "retries: {processChains: {maxAttempts: %d, delay: 1s}}\n", g.IntN(4))
	}
	if g.IntN(3) == 0 {
		fmt.Fprintf(&b, "priority: %d\n", g.IntN(10))
	}
	fmt.Fprintf(&b, "vars: [%s]\nactions: [\n  %s]\n", strings.Join(d.vars, ", "), strings.Join(list, ",\n  "))
	d.workflow = b.String()
	d.macros = `
- {id: pair, name: P, description: d, parameters: [{id: text, type: input, default: "fall back"},
    {id: result, type: output}], vars: [{id: between}], actions: [
    {type: execute, id: first, service: one, inputs: [{id: in, var: text}], outputs: [{id: out, var: between}]},
    {type: execute, id: second, service: one, inputs: [{id: in, var: between}], outputs: [{id: out, var: result,
        store: true}]}]}
- {id: spread, name: S, description: d, parameters: [{id: texts, type: input},
    {id: results, type: output}], vars: [{id: each}], actions: [
    {type: for, input: texts, enumerator: t, output: results, yieldToOutput: each, actions: [
      {type: include, macro: pair, inputs: [{id: text, var: t}], outputs: [{id: result, var: each}]}]}]}
`
	if g.IntN(3) == 0 {
		d.workflow = asJSON(d.workflow)
	}
	return d
}

// asJSON writes YAML as JSON, which Steep takes as well.
func asJSON(text string) string {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// variable declares a further one.
func (d *steepDocument) variable(id string) string {
	d.vars = append(d.vars, "{id: "+id+"}")
	return id
}

// action makes one up; depth is how many for actions may still be nested in it.
func (d *steepDocument) action(depth int) string {
	n := d.actions
	d.actions++
	id := fmt.Sprintf("a%d", n)
	fields := ""
	if d.IntN(4) > 0 || n == 0 {
		fields = ", id: " + id
	}
	if n > 0 && depth == 2 && d.IntN(4) == 0 {
		fields += ", dependsOn: " + d.pick("a0", "[a0]")
	}
	d.script[id] = d.once()
	switch kind := d.IntN(8); {
	case kind == 0 && depth > 0:
		return d.loop(n, fields, depth)
	case kind == 1 && depth == 2 && n > 0:
		return d.include(n, fields)
	case kind == 2 && depth == 2:
		dir := d.variable(fmt.Sprintf("dir%d", n))
		d.made["many"] = append(d.made["many"], dir)
		return fmt.Sprintf("{type: execute%s, service: list, outputs: [{id: dir, var: %s}]%s}", fields, dir, d.policy())
	case kind == 3 && depth == 2:
		return fmt.Sprintf("{type: execute%s, service: many, inputs: [{id: in, var: %s}, {id: in, value: last}]%s}",
			fields, d.input("many"), d.policy())
	default:
		out := d.variable(fmt.Sprintf("v%d", n))
		input := fmt.Sprintf("{id: in, var: %s}", d.input("one"))
		outputs := fmt.Sprintf("[{id: out, var: %s%s}]", out,
			d.pick("", ", store: true", ", prefix: sub/", ", prefix: p, store: true"))
		if depth == 2 {
			d.made["one"] = append(d.made["one"], out)
		}
		if d.IntN(5) == 0 {
			return fmt.Sprintf("{type: execute%s, service: one, parameters: [%s], outputs: %s%s}", fields,
				"{id: in, value: true}", outputs, d.policy())
		}
		return fmt.Sprintf("{type: execute%s, service: one, inputs: [%s], outputs: %s%s}", fields,
			input, outputs, d.policy())
	}
}

func (d *steepDocument) policy() string {
	if text := d.steepPolicy(); text != "" {
		return ", " + text
	}
	return ""
}

func (d *steepDocument) input(shape string) string { return d.pick(d.made[shape]...) }

// once returns the attempts of an action that other processes may run at the same time: none hangs that no limit might
// end.
func (d *steepDocument) once() []try {
	tries := free(d.tries())
	for i := range tries {
		tries[i].run += time.Duration(d.actions) * time.Millisecond
		tries[i].output = ""
	}
	return tries
}

// loop makes up a for action: over words, the files of a folder or lists in a list, with what it yields.
func (d *steepDocument) loop(n int, fields string, depth int) string {
	enumerator, made := fmt.Sprintf("e%d", n), d.variable(fmt.Sprintf("m%d", n))
	outer := d.made
	d.made = map[string][]string{"one": append([]string{enumerator}, outer["one"]...), "many": outer["many"]}
	list := d.input("many")
	service, yields := "one", ""
	if d.IntN(4) == 0 {
		service = "maybe"
		yields = ", yieldToInput: " + made
	}
	inner := []string{fmt.Sprintf("{type: execute, service: %s, inputs: [{id: in, var: %s}], outputs: [{id: out, "+
		"var: %s}]%s}", service, enumerator, made, d.policy())}
	for range d.IntN(3) {
		inner = append(inner, d.action(depth-1))
	}
	d.made = outer
	if d.IntN(3) > 0 {
		out := d.variable(fmt.Sprintf("all%d", n))
		yields += fmt.Sprintf(", output: %s, yieldToOutput: %s", out, d.pick(made, enumerator))
		if depth == 2 {
			d.made["many"] = append(d.made["many"], out)
		}
	}
	return fmt.Sprintf("{type: for%s, input: %s, enumerator: %s%s, actions: [%s]}", fields, list, enumerator,
		yields, strings.Join(inner, ", "))
}

func (d *steepDocument) include(n int, fields string) string {
	out := d.variable(fmt.Sprintf("inc%d", n))
	if d.IntN(2) == 0 {
		texts := d.input("many")
		d.made["many"] = append(d.made["many"], out)
		return fmt.Sprintf("{type: include%s, macro: spread, inputs: [{id: texts, var: %s}], outputs: [{id: results, "+
			"var: %s}]}", fields, texts, out)
	}
	d.made["one"] = append(d.made["one"], out)
	return fmt.Sprintf("{type: include%s, macro: pair%s, outputs: [{id: result, var: %s}]}", fields,
		d.pick("", ", inputs: [{id: text, value: said}]"), out)
}
