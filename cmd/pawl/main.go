// Command pawl runs durable workflows: flow files with exact timeouts and retries, on an embedded database.
//
// It has flags and drawing. The daemon, which machine.go makes, opens the database and serves it.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the zones of cron expressions, also on a machine without them

	"github.com/pawl-dev/pawl/internal/collector"
)

func main() { os.Exit(run()) }

// run executes the command line and returns the exit status.
func run() int {
	collector.Tune()
	collector.Bound()
	std := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return execute(context.Background(), std, os.Args[1:])
}
