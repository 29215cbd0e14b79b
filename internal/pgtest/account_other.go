//go:build !unix

package pgtest

import "os/exec"

// account is the user that runs the server if the test's own user may not. On this system it always may.
type account struct{ uid, gid int }

func unprivileged() (*account, error) { return nil, nil }

func (*account) use(*exec.Cmd) {}
