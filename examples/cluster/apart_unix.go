//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// apart protects a process from Ctrl-C in the terminal.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// serverUser returns a function that makes a command run as a user who may start PostgreSQL, and gives that user the
// folder. It refuses root.
func serverUser(folder string) (as func(*exec.Cmd), err error) {
	if os.Geteuid() != 0 {
		return func(*exec.Cmd) {}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, noUser := strconv.Atoi(u.Uid)
		gid, noGroup := strconv.Atoi(u.Gid)
		who := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who} },
			errors.Join(noUser, noGroup, os.Chown(folder, uid, gid))
	}
	return nil, errors.New("PostgreSQL refuses root, and there is no user postgres or nobody: " +
		"start this as another user")
}
