//go:build !windows

package worker

import "os/exec"

func prepareLine(*exec.Cmd, string) {}
