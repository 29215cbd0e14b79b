//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that runs the server where the test's own may not.
type account struct{ uid, gid int }

// unprivileged returns the user to run as in place of root, whom PostgreSQL refuses; nil where the test runs as another.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(u.Gid)
		return &account{uid, gid}, err
	}
	return nil, errors.New("pgtest: root cannot run PostgreSQL, and there is neither a user postgres nor nobody")
}

// lend lets the command run as the account.
func (a *account) lend(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}
