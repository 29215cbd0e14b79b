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

// run is main with an exit status to return.
func run() int {
	growBeforeCollecting()
	std := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return execute(context.Background(), std, os.Args[1:])
}
