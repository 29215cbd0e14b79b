package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// The places of a run's page at which one reads.
const (
	saidAt   = ".why .says"
	thenAt   = ".why .then"
	endsAt   = ".beside-why"
	headAt   = "header.run"
	stepAt   = ".step"
	rowsAt   = ".tl"
	firstEnd = ".ends .first"
)

// answer is a text that a place of the page has.
type answer struct{ at, text string }

// runKind is a kind of run that somebody looks at, and how its page answers the four questions that one has: what it
// does, what ends it, why that is so, and what comes next.
type runKind struct {
	name string // the name of the flow, and the id of the run
	flow string // the text of the flow behind its name
	late bool   // it begins when the clock was moved
	does, ends, why,
	next []answer
}

// runKinds are the kinds of runs. Their clock has gone on by five minutes; paused was paused after two.
var runKinds = []runKind{
	{
		name: "retrying",
		flow: `timeout: 45m
steps:
  - {name: validate, noop: {}}
  - name: charge
    needs: [validate]
    exec: "echo '503 Service Unavailable' >&2; exit 1"
    retry: {maxAttempts: 12, initialInterval: 2s, backoffCoefficient: 2, maxInterval: 2m}
    timeout: {scheduleToClose: 30m}
  - {name: ship, needs: [charge], noop: {}}
`,
		does: []answer{{saidAt, "charge retries in 1m06s"}, {saidAt, "attempt 9 of 12"}, {headAt, "Retrying"}},
		ends: []answer{{firstEnd, "charge last attempt (12)"}, {firstEnd, "in 7m06s"}, {endsAt, "run 45m"}},
		why:  []answer{{saidAt, "the last 8 failed alike: exit code 1: 503 Service Unavailable."}},
		next: []answer{
			{thenAt, "charge gives up in 7m06s"},
			{thenAt, "after attempt 12: its attempts are used up then"},
			{thenAt, "ship."},
			{rowsAt, "ship"},
		},
	},
	{
		name: "breaker",
		flow: `services: {maps: {limits: {breaker: {failures: 3, pause: 10m}}}}
steps:
  - name: lookup
    service: maps
    exec: "echo 'no route to maps' >&2; exit 1"
    retry: "fixed(10, 10s)"
    timeout: {scheduleToClose: 1h}
`,
		does: []answer{{saidAt, "lookup attempt 4 of 10 is held by service maps"}, {headAt, "Held"}},
		ends: []answer{{firstEnd, "scheduleToClose 1h"}, {endsAt, "lookup last attempt (10)"}},
		why:  []answer{{saidAt, "its last attempts have failed, and a probe goes first"}, {saidAt, "no route to maps"}},
		next: []answer{{saidAt, "it starts in 5m20s"}, {thenAt, "If its attempts fail, lookup gives up in "}},
	},
	{
		name: "unserved",
		flow: `steps:
  - {name: render, task: {type: pdf}, queue: reports, timeout: {scheduleToStart: 2h}}
`,
		does: []answer{{saidAt, "render waits for a worker of the queue reports for 5m"}, {headAt, "Queued"}},
		ends: []answer{{firstEnd, "render scheduleToStart 2h"}, {firstEnd, "in 1h55m"}},
		why:  []answer{{saidAt, `no worker takes "pdf" tasks from that queue.`}},
		next: []answer{{thenAt, "render begins when such a worker comes."}},
	},
	{
		name: "first",
		flow: "queue: heavy\nqueues: {heavy: {concurrency: 1}}\nsteps:\n  - {name: hold, wait: {event: go}}\n",
	},
	{
		name: "queued",
		flow: "queue: heavy\nqueues: {heavy: {concurrency: 1}}\ntimeout: {execution: 1h}\n" +
			"steps:\n  - {name: work, noop: {}}\n",
		does: []answer{{saidAt, "Waits in the queue heavy for 5m"}, {headAt, "Held"}},
		ends: []answer{{firstEnd, "execution 1h"}, {firstEnd, "in 55m"}},
		why:  []answer{{saidAt, "its concurrency is used up by first; it is the next one."}},
		next: []answer{{thenAt, "It begins when a run of that queue has ended."}, {rowsAt, "work"}},
	},
	{
		name: "misses",
		flow: "timeout: 20m\nsteps:\n  - {name: rest, sleep: 2h}\n  - {name: report, needs: [rest], noop: {}}\n",
		does: []answer{{saidAt, "rest sleeps and wakes in 1h55m"}, {headAt, "Sleeping"}},
		ends: []answer{{firstEnd, "run 20m"}, {firstEnd, "in 15m"}, {endsAt, "misses.yaml:3:"}},
		why:  []answer{{saidAt, "but the limit run ends it before, in 15m"}},
		next: []answer{
			{thenAt, "The run ends then as timed out, unless the limit run is extended."}, {rowsAt, "report"},
		},
	},
	{
		name: "beats", late: true,
		flow: `steps:
  - name: load
    exec: {results: lines, shell: "for i in 1 2 3; do echo '{\"pawl\": {\"heartbeat\": 1}}'; sleep 0.2; done; sleep 60"}
    timeout: {startToClose: 2h, heartbeat: 30s}
`,
		does: []answer{{saidAt, "load runs for "}, {headAt, "Running"}},
		ends: []answer{{firstEnd, "startToClose 2h"}, {endsAt, "heartbeat 30s without a sign of life"}},
		why:  []answer{{rowsAt, "load"}, {stepAt, "running"}},
		next: []answer{{thenAt, "If attempt 1 fails, load gives up: it is the last one."}},
	},
	{
		name: "event",
		flow: `steps:
  - {name: ask, wait: {event: approved}, timeout: 1h}
  - {name: ship, needs: [ask], noop: {}}
`,
		does: []answer{{saidAt, "ask waits for the event approved for 5m"}, {headAt, "Waiting"}},
		ends: []answer{{firstEnd, "ask wait 1h"}, {firstEnd, "in 55m"}},
		why:  []answer{{saidAt, "the event approved"}},
		next: []answer{{thenAt, "ship."}, {stepAt, "Send event approved"}},
	},
	{
		name: "parent",
		flow: "steps:\n  - {name: sub, flow: {name: event}}\n  - {name: after, needs: [sub], noop: {}}\n",
		does: []answer{{saidAt, "sub waits for its child run "}, {headAt, "Waiting"}},
		ends: []answer{{endsAt, "event: wait 1h"}},
		why:  []answer{{stepAt, "ask waits for the event approved"}},
		next: []answer{{thenAt, "after."}, {stepAt, "Its child run"}},
	},
	{
		name: "paused",
		flow: `timeout: 45m
steps:
  - {name: charge, exec: "echo down >&2; exit 1", retry: "fixed(12, 10m)"}
`,
		does: []answer{{saidAt, "Paused by ada 3m"}, {headAt, "Paused"}},
		ends: []answer{{endsAt, "run 45m"}, {endsAt, "43m left, its clock stands"}},
		why:  []answer{{saidAt, "customer on the phone; its clock stands."}},
		next: []answer{{thenAt, "charge retries when its run is resumed, attempt 2 of 12"}, {headAt, "Resume"}},
	},
	{
		name: "failed",
		flow: `steps:
  - {name: fetch, exec: "echo Traceback >&2; echo 'KeyError: CHF' >&2; exit 1", retry: "fixed(3, 1s)"}
  - {name: mail, needs: [fetch], noop: {}}
`,
		does: []answer{{saidAt, "Failed in "}, {headAt, "Failed"}},
		ends: []answer{{endsAt, "Nothing any more: it has ended"}},
		why: []answer{
			{saidAt, `step "fetch" failed: all 3 attempts are used up; the last one: exit code 1: KeyError: CHF`},
		},
		next: []answer{{headAt, "Retry failed steps"}, {thenAt, "A retry begins again with fetch."}},
	},
	{
		name: "between",
		flow: `steps:
  - {name: fetch, exec: "echo no answer >&2; exit 1", retry: "fixed(9, 1m)", timeout: {scheduleToClose: 150s}}
`,
		does: []answer{{saidAt, "Failed in "}, {stepAt, "Timed out"}},
		ends: []answer{{endsAt, "Nothing any more"}},
		why: []answer{
			{saidAt, "attempt 4 could not have begun before the scheduleToClose deadline (set at between.yaml:4:"},
			{saidAt, "the last one: exit code 1: no answer"},
		},
		next: []answer{{thenAt, "A retry begins again with fetch."}, {headAt, "Retry failed steps"}},
	},
	{
		name: "within",
		flow: "timeout: 2m\nsteps:\n  - {name: compile, exec: \"echo begun; sleep 60\"}\n",
		does: []answer{{saidAt, "Timed out in 2m"}, {headAt, "Timed out"}},
		ends: []answer{{endsAt, "Nothing any more"}},
		why:  []answer{{saidAt, "run limit of 2m expired (set at within.yaml:3:"}, {saidAt, "compile had not ended"}},
		next: []answer{{thenAt, "A retry begins again with compile."}},
	},
	{
		name: "items",
		flow: `steps:
  - name: pages
    forEach: "${{ 1..40 }}"
    exec: {shell: "if test $N -gt 35; then echo no such page >&2; exit 1; fi", env: {N: "${{ item }}"}}
    continueOn: [error]
`,
		does: []answer{{saidAt, "Succeeded in "}, {headAt, "Succeeded"}},
		ends: []answer{{endsAt, "Nothing any more"}},
		why:  []answer{{saidAt, "5 of 40 items of pages failed: exit code 1: no such page"}},
		next: []answer{{rowsAt, "5 failed"}, {stepAt, "Items 40"}},
	},
	{
		name: "colours",
		flow: "steps:\n  - {name: lint, exec: \"printf '\\\\033[31merror:\\\\033[0m no file\\\\n' >&2; exit 2\"}\n",
		does: []answer{{saidAt, "Failed in "}, {headAt, "Failed"}},
		ends: []answer{{endsAt, "Nothing any more"}},
		why:  []answer{{saidAt, `step "lint" failed: exit code 2: error: no file`}},
		next: []answer{{thenAt, "A retry begins again with lint."}, {headAt, "Retry failed steps"}},
	},
}

// TestPageOfEachKind checks that the page of each kind of run answers at its first sight what the run does, what ends
// it, why, and what comes next.
func TestPageOfEachKind(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	address := servedKinds(t)
	begun := func(late bool) {
		for _, k := range runKinds {
			if k.late == late {
				begin(t, address, fmt.Sprintf(`{"workflow":%q,"workflowId":%q}`, k.name, k.name))
			}
		}
	}
	begun(false)
	asked(t, http.MethodPost, address+"/api/v1/clock", `{"by":"2m"}`)
	asked(t, http.MethodPost,
		address+"/api/v1/runs/paused/pause", `{"actor":"ada","reason":"customer on the phone","stopClock":true}`)
	asked(t, http.MethodPost, address+"/api/v1/clock", `{"by":"3m"}`)
	begun(true)
	l.does("a wide screen", chromedp.EmulateViewport(1440, 900))
	kinds, answered := 0, 0
	for _, k := range runKinds {
		if k.does == nil {
			continue
		}
		kinds++
		l.does("look at "+k.name, chromedp.Navigate(address+"/run/"+k.name))
		l.sees(saidAt, k.does[0].text)
		l.sees(rowsAt, "True time")
		whole := true
		for _, asked := range []struct {
			question string
			answers  []answer
		}{{"what it does", k.does}, {"what ends it", k.ends}, {"why", k.why}, {"what comes next", k.next}} {
			for _, a := range asked.answers {
				if has, err := l.answers(a); err != nil || has != "" {
					whole = false
					t.Errorf("%s, %s: %s does not show %q but %q, %v", k.name, asked.question, a.at, a.text, has, err)
				}
			}
		}
		if whole {
			answered++
		}
		l.shot("kind-" + k.name)
	}
	if kinds != 14 || answered != kinds {
		t.Errorf("of %d kinds of run, %d answer all four questions", kinds, answered)
	}
}

// servedKinds serves the flows of all kinds of runs in virtual time.
func servedKinds(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	for _, k := range runKinds {
		write(t, dir, k.name+".yaml", "pawl: 1\nname: "+k.name+"\n"+k.flow)
	}
	return served(t, dir, "--virtual-time", "--database", "memory:", ".")
}

// answers waits until the page shows an answer: a part of it, as of a child run, may still be on its way. It returns
// what the page shows in place of it.
func (l looker) answers(a answer) (instead string, err error) {
	shown := fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "nothing").replace(/\s+/g, " ")`, a.at)
	_, err = chromedp.Run(l.ctx, chromedp.Poll[bool](fmt.Sprintf(`%s.includes(%q)`, shown, a.text),
		chromedp.WithPollingTimeout(10*time.Second)))
	if err == nil {
		return "", nil
	}
	return chromedp.Run(l.ctx, chromedp.Evaluate[string](shown))
}
