// Command parts runs the parts of a check one after the other, goes on after one that has failed, and prints a summary:
// which parts failed, which tests, how long each part and the slowest tests took. Each part is a name and a command:
//
//	parts tests go test ./... : seeds make sim SEEDS=1000
//
// A plus in place of the colon runs a part beside the one before it; its output is shown when both have ended. For a go
// test it shows a line for each package and the output of failed tests. With -log FILE it writes the output of go test
// -json for all tests to a file.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

func main() {
	name := flag.String("log", "", "file for what go test -json tells of all tests")
	flag.Parse()
	log := io.Discard
	if *name != "" {
		file, err := os.Create(*name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "parts:", err)
			os.Exit(1)
		}
		defer file.Close()
		log = file
	}
	if !run(flag.Args(), os.Stdout, log) {
		os.Exit(1)
	}
}

// part is one named command and its result.
type part struct {
	name    string
	command []string
	err     error
	took    time.Duration
	tests   results // the results of a go test
}

// split reads parts from arguments, in which a colon or a plus is between two of them. Parts of one list run beside
// each other.
func split(args []string) [][]*part {
	var all [][]*part
	for beside := false; len(args) > 0; {
		end := slices.IndexFunc(args, func(arg string) bool { return arg == ":" || arg == "+" })
		if end < 0 {
			end = len(args)
		}
		if end > 0 {
			p := &part{name: args[0], command: args[1:end]}
			if beside && len(all) > 0 {
				all[len(all)-1] = append(all[len(all)-1], p)
			} else {
				all = append(all, []*part{p})
			}
		}
		beside = end < len(args) && args[end] == "+"
		args = args[min(end+1, len(args)):]
	}
	return all
}

// run runs all parts and sums up. It reports whether all went well.
func run(args []string, out, log io.Writer) bool {
	all := split(args)
	for _, beside := range all {
		together(beside, out, log)
	}
	return summary(slices.Concat(all...), out)
}

// together runs parts beside each other. The first one's output is shown at once, that of the others at the end.
func together(parts []*part, out, log io.Writer) {
	var others sync.WaitGroup
	outs, logs := make([]held, len(parts)), make([]held, len(parts))
	for i, p := range parts[1:] {
		others.Go(func() { p.timed(&outs[i+1], &logs[i+1]) })
	}
	parts[0].timed(out, log)
	others.Wait()
	for i := range parts {
		_, _ = out.Write(outs[i].text)
		_, _ = log.Write(logs[i].text)
	}
}

// held keeps the output of a command, which it writes while another goroutine reads it.
type held struct {
	mu   sync.Mutex
	text []byte
}

func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p...)
	return len(p), nil
}

// timed runs a part and keeps its result.
func (p *part) timed(out, log io.Writer) {
	fmt.Fprintf(out, "--> %s\n", p.name)
	begun := time.Now()
	p.err = p.run(out, log)
	p.took = time.Since(begun)
}

// run runs the command of a part.
func (p *part) run(out, log io.Writer) error {
	if len(p.command) == 0 {
		return fmt.Errorf("part %s has no command", p.name)
	}
	test := slices.Index(p.command, "test")
	if test < 0 { // a command of another kind
		cmd := exec.Command(p.command[0], p.command[1:]...) //nolint:gosec // the caller's own command
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
	args := slices.Insert(slices.Clone(p.command), test+1, "-json")
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // the caller's own command
	cmd.Stderr = out
	told, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	p.tests.read(io.TeeReader(told, log), out)
	return cmd.Wait()
}

// summary reports which parts and tests have failed, and where the time went. It reports whether all went well.
func summary(all []*part, out io.Writer) bool {
	ok := len(all) > 0
	fmt.Fprintln(out)
	for _, p := range all {
		result := "ok"
		if p.err != nil {
			ok, result = false, "FAILED: "+p.err.Error()
		}
		fmt.Fprintf(out, "%-24s %6.1fs  %s\n", p.name, p.took.Seconds(), result)
		for _, t := range p.tests.failed {
			fmt.Fprintf(out, "    failed: %s\n", t)
		}
		if p.tests.passed > 0 {
			fmt.Fprintf(out, "    %d tests passed, %d were skipped, slowest:\n", p.tests.passed, p.tests.skipped)
		}
		for _, t := range p.tests.slowest(5) {
			fmt.Fprintf(out, "    %6.1fs  %s\n", t.seconds, t.name)
		}
	}
	return ok
}
