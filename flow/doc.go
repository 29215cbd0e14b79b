// Package flow is the workflow one writes down: a YAML or JSON document of steps, what each needs, and how long it may
// take.
//
// [Parse] reads a document and reports all its errors, each at its place. [Compile] makes a [core.Definition] of a
// document, whose decider is a pure interpreter: from the steps that have closed it computes what the run does next. It
// works by counters, so a decision costs what depends on the steps that closed and not what the flow holds.
//
// The strings of a document may hold expressions, ${{ input.orderId }}, in the language of github.com/expr-lang/expr. A
// string that is one expression and nothing else has that expression's value; in other strings the value is inserted as
// text. Expressions see
//
//	input     the run's input
//	steps     the steps this one needs, directly or not: steps.charge.output, .phase, .failure, .attempts; of a
//	          forEach also .outputs, the list of its items' outputs
//	item      the list's item, and index its position, in a step with forEach or each
//	attempt   the attempt's number, from 1
//	failure   why the last attempt failed, and code its code: in retry.when, in a step's further attempts; in a hook,
//	          why the run failed. In retry.when, failure.output is what the attempt returned although it failed
//	run       id, workflow, workflowId, phase, attempt (of the run retry policy), startedAt, scheduledAt
//	now       the instant at which the step was scheduled
//
// A step with forEach and no action is a loop. A step that names it with each runs once for each of its items, as soon
// as its needs have ended for that item. There a step of the same loop, or of one around it, means the step of that
// item: steps.work.output. steps.LOOP.output is the item and steps.LOOP.index its position. Of a loop inside, .outputs
// lists what belongs to the item; outside of the loop it lists all. A loop may itself have each, and with more its
// items make further ones.
//
// Expressions read no clock: the same records give the same values.
package flow
