package dialect

import (
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
	"github.com/pawl-dev/pawl/flow"
)

// Forms returns the systems whose policies may stand in a flow file, each below its own name:
//
//	temporal: {startToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 5}}
//	zart: {timeout: 5m, timeout_scope: per_attempt, retry: "fixed(3, 1s)"}
//
// They are for [flow.Parse].
func Forms() []flow.Form { return []flow.Form{temporalform.Form(), zartform.Form()} }
