package flow

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// foreignKeys are keys of GitHub Actions, GitLab, Dagu, Argo and Airflow, with what is written here: the first word
// that is known where the key stands.
var foreignKeys = map[string]string{
	"run": "exec shell", "script": "exec shell", "cmd": "exec command", "bash": "exec shell", "args": "command args",
	"if": "when", "precondition": "when", "preconditions": "when", "condition": "when", "only": "when", "rules": "when",
	"depends_on": "needs", "depends": "needs", "dependsOn": "needs", "dependencies": "needs", "upstream": "needs",
	"id": "name", "uses": "template", "templateRef": "template",
	"strategy": "matrix", "withItems": "forEach", "withParam": "forEach", "withSequence": "forEach", "loop": "forEach",
	"foreach": "forEach", "items": "forEach",
	"continue-on-error": "continueOn", "continue_on_error": "continueOn", "allow_failure": "continueOn",
	"ignore_errors": "continueOn", "trigger_rule": "trigger", "triggerRule": "trigger",
	"timeout-minutes": "timeout", "timeoutSec": "timeout", "timeout_seconds": "timeout",
	"activeDeadlineSeconds": "timeout", "execution_timeout": "timeout", "deadline": "timeout",
	"retryPolicy": "retry", "retryStrategy": "retry", "retries": "retry maxAttempts", "repeatPolicy": "retry",
	"limit": "maxAttempts", "attempts": "maxAttempts", "max_attempts": "maxAttempts", "max-attempts": "maxAttempts",
	"maxRetries": "maxAttempts", "max_retries": "maxAttempts", "maximumAttempts": "maxAttempts",
	"interval": "initialInterval", "intervalSec": "initialInterval", "delay": "initialInterval sleep",
	"retry_delay": "initialInterval", "duration": "initialInterval",
	"factor": "backoffCoefficient", "multiplier": "backoffCoefficient",
	"maxIntervalSec": "maxInterval", "maxDelay": "maxInterval", "maxDuration": "maxInterval",
	"exitCodes": "when", "exit_codes": "when", "exitCode": "when", "expression": "when schedule",
	"env_file": "dotenv", "envFile": "dotenv", "vars": "env", "variables": "env", "environment": "env",
	"triggers": "cron", "schedule": "cron", "schedules": "cron",
	"jobs": "steps", "stages": "steps", "tasks": "steps", "params": "input query", "inputs": "input",
	"arguments": "input", "parameters": "input", "handlerOn": "hooks", "handlers": "hooks",
	"working-directory": "dir", "workingDir": "dir", "workdir": "dir", "working_dir": "dir", "cwd": "dir",
	"entrypoint": "command", "volumeMounts": "volumes", "mounts": "volumes", "binds": "volumes",
	"pullPolicy": "pull", "imagePullPolicy": "pull",
	"parallel": "concurrency", "parallelism": "concurrency", "max-parallel": "concurrency",
	"max_parallel": "concurrency", "maxActiveSteps": "concurrency",
	"timezone": "zone", "timeZone": "zone", "time_zone": "zone", "tz": "zone", "cron": "schedule",
	"outputs": "output", "delaySec": "startDelay", "mailOn": "notify", "on_failure": "onFailure",
	"failure": "onFailure", "success": "onSuccess", "exit": "onExit", "abort": "onCancel", "cancel": "onCancel",
	"data": "json", "payload": "json", "uri": "url", "signal": "event",
	"runs-on": "queue", "agent": "queue", "pool": "service", "task_queue": "queue", "taskQueue": "queue",
}

// ownKey returns what is written here in place of a key of another system; empty: it is not known.
func ownKey(key string, known []string) string {
	for own := range strings.FieldsSeq(foreignKeys[key]) {
		if contains(known, own) {
			return own
		}
	}
	return ""
}

// zoneKeys are what others call the zone of a schedule, where it stands outside of cron.
var zoneKeys = []string{"timezone", "timeZone", "time_zone", "zone", "tz"}

// foreignKey says what is written here in place of a key that other systems have.
func foreignKey(key string, known []string) string {
	step := contains(known, "exec") && contains(known, "when")
	switch {
	case contains(known, "cron") && key == "on":
		return "cron starts it by a timetable; events and requests start it by pawl run, or over HTTP"
	case step && (key == "outputs" || key == "output"):
		return "a script writes name=value to the file $PAWL_OUTPUT; later steps read steps.NAME.output.name"
	case step && key == "timeout-minutes":
		return "write timeout: 10m"
	case step && key == "executor":
		return "what a step does is its key: exec, http, task, mail, sleep, wait or flow"
	}
	if own := ownKey(key, known); own != "" {
		return "write " + own
	}
	inExec := key
	if own := ownKey(key, execKeys); own != "" {
		inExec = own
	}
	switch {
	case contains(known, "cron") && contains(zoneKeys, key):
		return "write cron: {schedule: …, zone: …}"
	case slices.Equal(known, waitKeys) && key == "timeout":
		return "write timeout beside wait, not in it"
	case contains(known, "exec") && contains(execKeys, inExec) && inExec != "container":
		return inExec + " belongs in exec: {" + inExec + ": …}"
	case contains(known, "exec") && (key == "image" || key == "container"):
		return "write exec: {shell: …, container: IMAGE}"
	case contains(known, "container") && key == "image":
		return "write container: IMAGE"
	case contains(known, "image"):
		if contains(execKeys, inExec) {
			return "write " + inExec + " beside container"
		}
	}
	return ""
}

// foreignEndings are words of other systems for the ways in which a step may fail.
var foreignEndings = map[string]Ending{
	"failure": EndError, "failures": EndError, "fail": EndError, "exit": EndError, "exitCode": EndError,
	"exitcode": EndError, "exit_code": EndError, "nonzero": EndError, "true": EndError, "always": EndError,
	"any": EndError, "all": EndError, "errored": EndError,
	"timedOut": EndTimeout, "timed_out": EndTimeout, "timedout": EndTimeout, "canceled": EndCancelled,
}

// endingHint says which ending may be meant by a word.
func endingHint(word string) string {
	switch own := foreignEndings[word]; {
	case own == EndError:
		return "write error: an exit code other than 0, an exception; failed is what a step says will never succeed"
	case own != "":
		return "write " + string(own)
	case word == "skipped":
		return "leave it out: what needs a step that its own when has skipped goes on"
	}
	if hint := nearest.Hint(word, endings); hint != "" {
		return hint
	}
	return "use " + orList(endings)
}

// foreignTriggers are the rules of Airflow.
var foreignTriggers = map[string]string{
	"all_success": allSucceeded, "all_failed": allFailed, "all_done": always, "one_success": anySucceeded,
	"one_failed": anyFailed, "none_failed": allSucceeded, "one_done": anySucceeded, "success": allSucceeded,
	"failure": anyFailed, "failed": anyFailed, "always()": always, "failure()": anyFailed, "success()": allSucceeded,
}

// triggerHint says which rule may be meant by a word.
func triggerHint(word string) string {
	if own := foreignTriggers[word]; own != "" {
		return "write " + own
	}
	if hint := nearest.Hint(word, triggers); hint != "" {
		return hint
	}
	return "use " + orList(triggers)
}

// notList reports a value in place of a list of endings: Dagu and Argo have a mapping there, GitHub true.
func notList(p *parsing, n *tree.Node) bool {
	if n == nil || n.Kind != tree.Mapping && n.Kind != tree.Bool {
		return false
	}
	p.Fail(n.Pos, "write continueOn: [error, timeout]", "continueOn is a list of "+orList(endings)+", not %s",
		tree.Describe(n))
	return true
}
