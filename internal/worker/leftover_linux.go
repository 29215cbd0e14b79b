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

// leftoverWait bounds how long KillLeftovers waits for the killed processes to disappear.
const leftoverWait = 5 * time.Second

// KillLeftovers kills the processes that an earlier engine with this owner started, with their process groups. It waits
// up to five seconds until they are gone. Call it before an engine recovers, while no executor with this owner runs.
//
// It finds the processes by the variable PAWL_OWNER in the environment that they were started with. It never kills this
// process or one of its ancestors. It does not see processes of other users.
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
			if l, there := leftover(pid); there && !known[pid] { // describe all first: killing one may end others
				known[pid] = true
				killed = append(killed, l)
			}
		}
		for _, pid := range left {
			killLeftover(pid, entries)
		}
		if time.Now().After(deadline) {
			const advice = "end them before the work is repeated"
			return killed, fmt.Errorf("worker: processes %v of an earlier worker were killed and are still there; %s",
				left, advice)
		}
		time.Sleep(pause)
	}
}

// killLeftover kills a process. It also kills the process's group if that belongs to the attempt: the group's leader
// has the mark or is gone. A zombie is listed, but its environment is not.
func killLeftover(pid int, entries []string) {
	s, ok := statusOf(pid)
	if ok && s.group > 1 && s.group != syscall.Getpgrp() && isMarked(pid, entries) {
		leader, there := statusOf(s.group)
		leads := there && leader.state != 'Z' && leader.state != 'X'
		if !slices.Contains(ancestors(), s.group) && (!leads || isMarked(s.group, entries)) {
			_ = syscall.Kill(-s.group, syscall.SIGKILL) // fails if the group is gone by now
		}
	}
	killMarked(pid, entries)
}

// leftover describes a process. False means that it is gone.
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
			l.Attempt, _ = strconv.Atoi(value) // 0 if the process changed the variable
		}
	}
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
		l.Command = Shorten(ValidText(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})), 200)
	}
	return l, env != nil
}
