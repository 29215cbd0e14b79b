//go:build !unix

package pgtest

import "os/exec"

// account is the user that runs the server where the test's own may not; here it always may.
type account struct{ uid, gid int }

func unprivileged() (*account, error) { return nil, nil }

func (*account) lend(*exec.Cmd) {}
