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

// account is the user that runs the server if the test's own user may not.
type account struct{ uid, gid int }

// unprivileged returns a user to run the server if the test runs as root, because PostgreSQL refuses root. It returns
// nil for any other user.
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
	return nil, errors.New("pgtest: root cannot run PostgreSQL, and there is no user postgres or nobody")
}

// use makes the command run as the account.
func (a *account) use(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}
