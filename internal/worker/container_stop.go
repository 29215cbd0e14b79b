package worker

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// boxWork is the container of an attempt with the client that waits for it.
type boxWork struct {
	*box
	client processGroup
	grace  time.Duration
	asking *sync.WaitGroup
}

func (w boxWork) exited() <-chan struct{} { return w.client.exited() }

// ask makes the program stop the container, which gets SIGTERM or the signal that its image chooses. The client ends
// with it. If there is no container yet, since its image is being pulled, the client itself is asked.
func (w boxWork) ask() {
	w.asking.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), w.grace+containerPatience)
		defer cancel()
		patience := w.grace + containerPatience // the worker kills it before
		_, err := w.box.client.call(ctx, "stop", "-t", strconv.Itoa(int(patience.Seconds())), w.name)
		if err != nil && !w.client.leader.hasExited() {
			w.client.ask()
		}
	})
}

func (w boxWork) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), max(w.grace, minKillWait))
	defer cancel()
	_, _ = w.box.client.call(ctx, "kill", w.name) // fails if it has ended, or was not begun
	w.client.kill()
	if w.client.leader.hasExited() {
		_, _ = w.box.client.call(ctx, "rm", "--force", w.name)
	}
}

func (w boxWork) gone() bool { return w.client.gone() && w.box.gone() }

// gone reports whether the container no longer exists.
func (b *box) gone() bool {
	left, err := b.client.labelled(context.Background(), labelName+"="+b.name)
	return err == nil && len(left) == 0
}

// end ends a container that may have outlived its client. It reports whether the container is gone.
func (b *box) end() bool {
	if _, err := os.Stat(b.id); err != nil {
		return true // it was never made
	}
	for over, wait := time.Now().Add(containerPatience), time.Millisecond; ; wait *= 2 {
		if b.gone() {
			return true
		}
		if time.Now().After(over) {
			return false
		}
		b.client.end(context.Background(), b.name)
		time.Sleep(min(wait, time.Second))
	}
}

// The codes with which docker and podman report that the container did not begin.
const (
	codeClient        = 125 // the client's own
	codeNotExecutable = 126
	codeNoProgram     = 127
)

// explain turns the failure of a process into the one of its container.
func (b *box) explain(f *policy.Failure, stderr string) {
	said := clientSaid(stderr)
	switch {
	case f.Type == "exit" && f.Code == codeClient && said != "":
		f.Type, f.Message = "container", "the container did not begin: "+said
	case f.Type == "exit" && (f.Code == codeNoProgram || f.Code == codeNotExecutable) && said != "" && !b.shell:
		f.Kind, f.Type, f.Message = policy.KindFailed, "not_found", "the container has no such program: "+said
	case f.Type == "exit" && f.Code == 128+int(syscall.SIGKILL):
		f.Message += "; if nobody killed it, the container or the machine may be out of memory"
	}
}

// clientSaid returns the last error that docker or podman themselves have printed.
func clientSaid(stderr string) string {
	said := ""
	for line := range strings.Lines(stderr) {
		for _, prefix := range []string{"docker: ", "Error: ", "Error response from daemon: "} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok && text != "" {
				said = text
			}
		}
	}
	return Shorten(said, 500)
}
