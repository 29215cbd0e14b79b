package flow

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// part is a mapping of the language with the place of its schema and an example of it. An example that begins with a
// dash is a step; else it is a part of a flow's top.
type part struct{ title, def, intro, example string }

var parts = []part{
	{"The top of a file", "", "A flow file is YAML or JSON.", `description: Renders a page for each order.
input: {type: object, required: [orderId], properties: {orderId: {type: string}}}
timeout: 30m
output: {page: "${{ input.orderId }}.html"}`},
	{
		"Steps", "step",
		"A step has one action: `exec`, `http`, `task`, `sleep`, `wait`, `flow`, `fail`, `noop` or `mail`.",
		`- name: render
  forEach: [a, b]
  concurrency: 2
  exec: {command: [echo, "${{ item }}"]}
  retry: "exponential(4, 1s, max=30s)"
  timeout: {startToClose: 10s, scheduleToClose: 5m}
  continueOn: [error]`,
	},
	{
		"matrix", "matrix", "Lists by names of your choice, the axes; an item is a combination of their values. See " +
			"[loops](../guide/loops.md).",
		`- name: test
  matrix: {os: [linux, mac], version: [1, 2], exclude: [{os: mac, version: 1}], include: [{os: linux, fast: true}]}
  itemName: "${{ item.os }} with ${{ item.version }}"
  exec: {command: [echo, "${{ item.os }}", "${{ item.version }}"]}`,
	},
	{
		"exec", "execObject", "Runs a process; see [exec](exec.md). A text is the line of a shell.",
		`- {name: build, exec: {command: [make, all], dir: /tmp, env: {CGO_ENABLED: "0"}, grace: 10s}}
- {name: pack, exec: {shell: make dist, artifacts: [dist/*.gz]}}
- {name: publish, needs: [pack], exec: {shell: ./publish.sh dist, artifactsFrom: [pack]}}`,
	},
	{
		"container", "containerObject", "Runs the process of an exec step in a container; see " +
			"[exec](exec.md#containers). A text is the image.",
		`- {name: test, exec: {shell: go test ./..., container: "golang:1.26"}}
- name: dump
  exec:
    command: [pg_dump, --file=/backup/shop.sql, shop]
    env: {PGHOST: db.example}
    container: {image: "postgres:17", volumes: ["./backup:/backup"], network: host, user: "70:70", pull: never}`,
	},
	{
		"http", "httpObject", "Makes a request; see [http](http.md). A text is the URL of a GET.",
		`- name: charge
  http: {method: POST, url: "https://pay.example/charges", json: {amount: 5}, expect: [2xx, 409]}`,
	},
	{
		"task", "taskObject", "Calls a function of a worker.",
		`- {name: resize, task: {type: Resize, queue: images, input: {width: 40}}}`,
	},
	{
		"sleep", "sleepObject", "Lets time pass, without holding anything. A text is the length of time.",
		`- {name: night, sleep: {until: "2030-01-02T03:04:05Z"}}`,
	},
	{
		"wait", "waitObject",
		"Waits for an event, or for the first of several events and steps. A text is an event's name.",
		`- {name: approval, wait: {event: approved}, timeout: 7d}
- {name: first, wait: {any: [stopped, {step: approval}]}, timeout: 8d}`,
	},
	{
		"flow", "flowObject", "Runs another flow, and has its output. A text is its name.",
		`- {name: ship, flow: {name: shipping, input: {order: 42}, parentClose: abandon}}`,
	},
	{
		"fail", "failObject", "Fails. A text is the message.",
		`- {name: stop, fail: {type: NoPaper, message: the tray is empty, nonRetryable: true}}`,
	},
	{"noop", "noopObject", "Does nothing, and has an output.", `- {name: names, noop: {output: [ada, bob]}}`},
	{
		"mail", "mail", "Sends a message by SMTP; see [notices](../guide/notify.md#mail).",
		`- name: tell
  mail: {server: "smtp.shop.example", from: shop@shop.example, to: ops@shop.example, subject: Stock, text: Empty.}`,
	},
	{
		"timeout of a step", "limits", "Limits by name; a length of time alone is `scheduleToClose`, of a `wait` " +
			"step `wait`. Each is a length, or a mapping with `after`, `onExpire` and `warn`.",
		`- {name: work, exec: make, timeout: {startToClose: 1m, inactivity: 20s, deadline: {after: 10m, warn: 80%}}}`,
	},
	{"timeout of a run", "runLimits", "A length of time alone is `run`.", `timeout: {run: 1h, execution: 24h}`},
	{
		"retry", "retryObject", "Or a text: `exponential(5, 1s, max=30s, jitter=0.25)`, `fixed(3, 10s)`, `none`.",
		`- name: ask
  http: "https://api.example"
  retry: {maxAttempts: 5, initialInterval: 1s, maxInterval: 30s, when: "${{ code != 404 }}"}`,
	},
	{
		"cron", "cronObject", "A text is the schedule.",
		`cron: {schedule: "0 4 * * *", zone: Europe/Berlin, skipped: skip}`,
	},
	{"queue of runs", "runQueueObject", "A text is its name.", `queue: {name: imports, priority: 5}
queues: {imports: {concurrency: 2}}`},
	{"limits of queues and services", "queueLimits", "", `services:
  store: {limits: {concurrency: 4, rate: 10/s, perKey: 1, fair: true}}`},
	{"breaker", "breaker", "", `services:
  store: {limits: {breaker: {failures: 5, pause: 30s}}}`},
	{"services and defaults", "service", "Settings that several steps share.", `services:
  store: {retry: "fixed(3, 1s)", timeout: {startToClose: 4s}}`},
	{
		"templates", "template",
		"What steps do, with parameters; see [templates](../guide/values.md#templates). A step that names one has " +
			"its keys, except those that it gives itself.",
		`templates:
  greet:
    parameters: {name: {description: who is greeted}, times: {default: 1}}
    forEach: "${{ 1..with.times }}"
    exec: {command: [echo, "Hello ${{ with.name }}"]}`,
	},
	{"parameters of templates", "parameter", "", `templates:
  build:
    parameters: {target: {description: what is built, default: all}}
    exec: {command: [make, "${{ with.target }}"]}`},
	{
		"hooks", "hooks", "Steps that run when the outcome is settled. They have no `needs`.",
		`hooks:
  onFailure: {exec: ./tell.sh}
  onSuccess: {exec: rm -rf scratch}
  onExit: {exec: ./unlock.sh}`,
	},
	{
		"notify", "notify", "Tells people; see [notices](../guide/notify.md). Expressions see `notice.subject`, " +
			"`notice.text` and `notice.on`.",
		`secrets: [chat]
notify:
  - http: "${{ secrets.chat }}"
  - {on: [failure, recovery, warning], exec: ./page.sh, timeout: 1m}`,
	},
}

// plainKinds are kinds of JSON Schema, of which nobody has to read more.
var plainKinds = []string{"array", "boolean", "integer", "number", "object", "string"}

// TestKindsAreExplained checks that each kind of value in the tables of docs/reference/flow.md has a section there, or
// in docs/reference/types.md.
func TestKindsAreExplained(t *testing.T) {
	known, named := map[string]bool{}, map[string]bool{}
	row := regexp.MustCompile("^\\| `[^`]+`.*\\|([^|]*)\\|$")
	for _, page := range []string{"flow.md", "types.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				known[heading] = true
			}
			if cells := row.FindStringSubmatch(line); cells != nil && page == "flow.md" {
				for _, kind := range strings.FieldsFunc(cells[1], func(r rune) bool { return r == ' ' || r == ',' }) {
					named[kind] = true
				}
			}
		}
	}
	for _, p := range parts {
		known[p.def] = true
	}
	for kind := range named {
		if kind != "or" && kind[0] != '`' && !known[kind] && !slices.Contains(plainKinds, kind) {
			t.Errorf("nothing says what %q is: give it a section in docs/reference/types.md", kind)
		}
	}
}

type schemaDef struct {
	Description string
	Ref         string `json:"$ref"`
	Type        any
	Enum        []any
	Const       any
	Properties  map[string]*schemaDef
	Required    []string
	AnyOf       []*schemaDef
	OneOf       []*schemaDef
	Default     any
}

// TestReference checks that docs/reference/flow.md agrees with the schema, and that its examples are valid. With
// -rewrite it is written.
func TestReference(t *testing.T) {
	var root struct {
		schemaDef
		Defs map[string]*schemaDef `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Flow files\n\nEvery key of a flow file. `pawl schema flow` prints the JSON Schema that this " +
		"page is made of, for your\neditor. [Values of keys](types.md) says what each kind of value is, " +
		"[expressions](expressions.md) of `${{ }}`.\n")
	for _, p := range parts {
		def := &root.schemaDef
		if p.def != "" {
			def = root.Defs[p.def]
		}
		if def == nil || len(def.Properties) == 0 {
			t.Errorf("the schema has no mapping %q", p.def)
			continue
		}
		writePart(&b, p, def)
		text := "pawl: 1\nname: example\n"
		if strings.HasPrefix(p.example, "- ") {
			text += "steps:\n" + p.example + "\n"
		} else {
			text += p.example + "\nsteps: [{name: a, noop: {}}]\n"
		}
		if _, err := Parse(p.title, []byte(text)); err != nil {
			t.Errorf("the example of %q: %v", p.title, err)
		}
	}
	path := filepath.Join("..", "docs", "reference", "flow.md")
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the schema says (%v): go test ./flow -run TestReference -rewrite", path, err)
	}
}

func writePart(b *strings.Builder, p part, def *schemaDef) {
	fmt.Fprintf(b, "\n## %s\n\n", p.title)
	for _, text := range []string{p.intro, def.Description} {
		if text != "" && p.def != "" || text == p.intro && text != "" {
			fmt.Fprintf(b, "%s\n\n", text)
		}
	}
	b.WriteString("| key | what it is | value |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(def.Properties)) {
		f := def.Properties[name]
		key := "`" + name + "`"
		if slices.Contains(def.Required, name) {
			key += " (required)"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", key, strings.ReplaceAll(f.Description, "|", `\|`), valueOf(f))
	}
	fmt.Fprintf(b, "\n```yaml\n%s\n```\n", p.example)
}

// valueOf says what a value may be, in a word or two.
func valueOf(d *schemaDef) string {
	switch {
	case d.Const != nil:
		return fmt.Sprintf("`%v`", d.Const)
	case len(d.Enum) > 0:
		var all []string
		for _, v := range d.Enum {
			all = append(all, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(all, ", ")
	case d.Ref != "":
		return strings.TrimPrefix(d.Ref, "#/$defs/")
	case len(d.AnyOf)+len(d.OneOf) > 0:
		var all []string
		for _, one := range append(d.AnyOf, d.OneOf...) {
			if text := valueOf(one); text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		return strings.Join(all, " or ")
	case d.Type != nil:
		return strings.Trim(fmt.Sprint(d.Type), "[]")
	default:
		return "any"
	}
}
