package io

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"

	"github.com/pawl-dev/pawl"
)

type shop struct {
	db     *sql.DB
	client *http.Client
}

func (s *shop) body(ctx pawl.Context, in string) (string, error) {
	_ = os.Getenv("HOME")            // want `os.Getenv in a workflow's body may give something else .*: read it in a step \(pawl.Step\), or pass it in the workflow's input`
	_, _ = os.ReadFile(in)           // want `os.ReadFile in a workflow's body is done again .*: do it in a step`
	_, _ = http.Get(in)              // want `http.Get in`
	_, _ = s.client.Do(nil)          // want `http.Client.Do in`
	_, _ = net.Dial("tcp", in)       // want `net.Dial in`
	_ = exec.Command(in).Run()       // want `exec.Cmd.Run in`
	_, _ = s.db.ExecContext(ctx, in) // want `sql.DB.ExecContext in`
	_ = runtime.NumCPU()             // want `runtime.NumCPU in`
	fmt.Println("done")              // want `fmt.Println in a workflow's body is written again`
	if err := pawl.Do(ctx, "ping", s.db.PingContext); err != nil {
		return "", err
	}
	return pawl.Step(ctx, "read", func(ctx context.Context) (string, error) {
		b, err := os.ReadFile(os.Getenv("HOME"))
		return string(b), err
	})
}
