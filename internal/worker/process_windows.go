package worker

import (
	"os/exec"
	"syscall"
)

// prepareLine passes a line to cmd unchanged. Go would put a backslash before each quotation mark in it, which most
// programs expect, but cmd takes it for a part of the text.
func prepareLine(cmd *exec.Cmd, line string) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /S /C "` + line + `"`}
}
