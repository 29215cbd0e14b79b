// Command pawlvet finds code in Pawl workflows that gives another result when a body is called again.
//
//	go install github.com/pawl-dev/pawl/cmd/pawlvet@latest
//	pawlvet ./...
//
// The second line is short for go vet -vettool=$(which pawlvet) ./..., and takes the same flags. "pawlvet help pawlvet"
// lists the checks.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/pawl-dev/pawl/internal/vet"
)

func main() {
	if args := os.Args[1:]; len(args) > 0 && !fromGoVet(args) {
		os.Exit(goVet(args))
	}
	unitchecker.Main(vet.Analyzer)
}

// fromGoVet reports whether the arguments are those that go vet passes to its tool, or ask for help.
func fromGoVet(args []string) bool {
	return args[0] == "help" || slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "-V") || arg == "-flags" || arg == "-h" || arg == "-help" || arg == "--help" ||
			strings.HasSuffix(arg, ".cfg")
	})
}

// goVet runs go vet with this program as its tool, and returns its exit status.
func goVet(args []string) int {
	self, err := os.Executable()
	if err == nil {
		cmd := exec.Command("go", append([]string{"vet", "-vettool=" + self}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "pawlvet:", err)
		return 1
	default:
		return 0
	}
}
