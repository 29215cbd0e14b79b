//go:build !windows

package screen

import (
	"os"
	"os/signal"
	"syscall"
)

// canSuspend reports whether Ctrl-Z stops a process until its shell continues it.
const canSuspend = true

// notifyContinued sends to the channel after the process was stopped and goes on.
func notifyContinued(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCONT) }

// continueProcess does what the shell does to continue this process.
func continueProcess() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGCONT) }
