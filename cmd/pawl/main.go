// Command pawl runs durable workflows: flow files with exact timeouts and retries, on an embedded database.
//
// Everything is wired here and nowhere else: the journal, the workers and the flow interpreter meet in wiring.go.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the zones of cron expressions, also on a machine without them
)

func main() { os.Exit(run()) }

// run executes the command line and returns the exit status.
func run() int {
	growBeforeCollecting()
	std := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return execute(context.Background(), std, os.Args[1:])
}
