// Package stevoraapi answers Stevora's requests about workflow runs, in its words and with its statuses, for programs
// that were written for it:
//
//	POST /api/v1/workflow-runs                  start a run
//	GET  /api/v1/workflow-runs                  list runs
//	GET  /api/v1/workflow-runs/{id}             one run with its steps
//	POST /api/v1/workflow-runs/{id}/retry       run its failed step again, with the policy afresh
//	POST /api/v1/workflow-runs/{id}/cancel
//	POST /api/v1/workflow-runs/{id}/signals     also /resume: what an external_event waits for
//	GET  /api/v1/workflow-runs/{id}/events
//
// Every answer is {"success": true, "data": …, "meta": …} or {"success": false, "error": {"code", "message", "hint"}}.
package stevoraapi
