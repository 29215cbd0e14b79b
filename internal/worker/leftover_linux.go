package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// leftoverWait bounds how long KillLeftovers waits for what it killed.
const leftoverWait = 5 * time.Second

// KillLeftovers kills the processes that an engine with this owner started and that are still there, with their process
// groups, and waits up to five seconds until they are gone. It is called before an engine recovers, when no executor
// with this owner runs. It finds them by the variable PAWL_OWNER in the environment they were started with, and never
// kills this process, or one above it. A process of another user is not seen.
func KillLeftovers(owner string) (killed []Leftover, err error) {
	if owner == "" {
		return nil, errors.New("worker: leftover processes have no mark without an owner; set ExecConfig.Owner")
	}
	entries := []string{"PAWL_OWNER=" + owner}
	known := map[int]bool{}
	deadline := time.Now().Add(leftoverWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left := marked(entries)
		if len(left) == 0 {
			return killed, nil
		}
		for _, pid := range left {
			if l, there := leftover(pid); there && !known[pid] { // before one takes others along
				known[pid] = true
				killed = append(killed, l)
			}
		}
		for _, pid := range left {
			killLeftover(pid, entries)
		}
		if time.Now().After(deadline) {
			return killed, fmt.Errorf("worker: processes %v of a former worker were killed and are still there; end them before the work is repeated", left)
		}
		time.Sleep(pause)
	}
}

// killLeftover kills a process, and its group where that is the attempt's own: its leader has the mark, or is gone.
func killLeftover(pid int, entries []string) {
	s, ok := statusOf(pid)
	if ok && s.group > 1 && s.group != syscall.Getpgrp() && isMarked(pid, entries) {
		_, leads := statusOf(s.group)
		if !slices.Contains(lineage(), s.group) && (!leads || isMarked(s.group, entries)) {
			_ = syscall.Kill(-s.group, syscall.SIGKILL) // it may be gone by now
		}
	}
	killMarked(pid, entries)
}

// leftover describes a process; false: it is gone.
func leftover(pid int) (Leftover, bool) {
	l := Leftover{PID: pid}
	env := environmentOf(pid)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "PAWL_RUN_ID":
			l.Run = value
		case "PAWL_STEP":
			l.Step = value
		case "PAWL_ATTEMPT":
			l.Attempt, _ = strconv.Atoi(value) // 0: somebody else wrote it
		}
	}
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
		l.Command = Shorten(ValidText(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})), 200)
	}
	return l, env != nil
}
