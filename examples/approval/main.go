// Command approval has changes approved: by the team, or by the manager if the team does not answer in time. An
// approved change is applied, and undone unless the monitoring reports in time that it works.
//
//	go run ./examples/approval
//
// Then type the answers of the people and the monitoring. The program waits for each of them for -patience at most.
//
//	change-1 ada yes       ada approves; bob may not, because the change is his
//	change-1 works         the monitoring reports that it works
//	change-1               shows what the change waits for
//
// Kill it with kill -9 and start it again: no decision is lost, and nobody has more time than before.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

type change struct {
	ID, Author string
}

type decision struct {
	By  string
	Yes bool
}

// The messages that a run takes, by name and with their types. An update is answered; an event is not.
const (
	decide pawl.Update[decision, string] = "decide"
	report pawl.Event[string]            = "report"
)

// stage names the thing for which an approval waits.
var stage pawl.State[string]

// office holds the systems that the workflow works with. The log represents its mails, and the system that is changed.
type office struct {
	log      io.Writer
	patience time.Duration
}

func (o *office) workflow() *pawl.Workflow[change, string] {
	return pawl.Define("approval", o.approve, pawl.Defaults(pawl.Retry("exponential(10, 1s, max=1m)")))
}

// approve runs the workflow.
func (o *office) approve(ctx pawl.Context, c change) (string, error) {
	d, err := o.ask(ctx, c)
	if err != nil {
		return "", err
	}
	if !d.Yes {
		return "refused by " + d.By, nil
	}

	if err := pawl.Do(ctx, "apply", o.does("apply", c)); err != nil {
		return "", err
	}
	if err := stage.Set(ctx, "applied; waits for the monitoring"); err != nil {
		return "", err
	}
	said, err := report.Wait(ctx, pawl.Within(o.patience))
	switch {
	case errors.Is(err, pawl.ErrDeadlineExceeded):
		return "taken back", pawl.Do(ctx, "take-back", o.does("take-back", c))
	case err != nil:
		return "", err
	}
	return "approved by " + d.By + ", " + said, nil
}

// ask sends the question to the team, and then to the manager. Both have so long to decide; it is an error if neither
// does.
func (o *office) ask(ctx pawl.Context, c change) (d decision, err error) {
	for _, who := range []string{"team", "manager"} {
		if err := stage.Set(ctx, "waits for a decision of the "+who); err != nil {
			return d, err
		}
		if err := pawl.Do(ctx, "mail-"+who, o.does("mail-"+who, c)); err != nil {
			return d, err
		}
		err = decide.Handle(ctx,
			func(d decision) error { // a decision that is refused leaves no trace
				if d.By == c.Author {
					return fmt.Errorf("%s cannot decide about a change of their own", d.By)
				}
				return nil
			},
			func(_ pawl.Context, accepted decision) (string, error) {
				d = accepted
				return "thank you, " + d.By, nil
			},
			pawl.Within(o.patience))
		if !errors.Is(err, pawl.ErrDeadlineExceeded) {
			return d, err // somebody has decided, or the run was cancelled
		}
	}
	return d, fmt.Errorf("nobody has decided: %w", err)
}

// does returns the function of a step.
func (o *office) does(what string, c change) func(context.Context) error {
	return func(context.Context) error {
		_, err := fmt.Fprintln(o.log, c.ID, what)
		return err
	}
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "approval"), "folder of the database and the log")
	changes := flag.Int("changes", 3, "how many changes there are")
	patience := flag.Duration("patience", 20*time.Second, "how long the program waits for each answer")
	flag.Parse()
	if err := run(*dir, *changes, *patience); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

func run(dir string, changes int, patience time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, w := context.Background(), (&office{log, patience}).workflow()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	var runs []pawl.Run[string]
	for i := range changes {
		c := change{ID: fmt.Sprint("change-", i+1), Author: "bob"}
		r, err := w.Start(ctx, eng, c.ID, c, pawl.IdempotencyKey(c.ID)) // or finds the run of an earlier life
		if err != nil {
			return errors.Join(err, eng.Close())
		}
		runs = append(runs, r)
	}
	go answer(ctx, eng, os.Stdin)
	fmt.Printf("%d changes wait for a decision; type: change-1 ada yes\n", changes)
	for i, r := range runs {
		said, err := r.Result(ctx)
		if err != nil {
			said = err.Error()
		}
		fmt.Printf("change-%d: %s\n", i+1, said)
	}
	return eng.Close()
}

// answer sends each typed line in its own goroutine, because the sender of an update waits for the answer.
func answer(ctx context.Context, c pawl.Client, typed io.Reader) {
	for lines := bufio.NewScanner(typed); lines.Scan(); {
		line := lines.Text()
		go func() {
			said, err := send(ctx, c, strings.Fields(line), pawl.SendID(line))
			if err != nil {
				said = err.Error()
			}
			fmt.Println(line, "→", said)
		}()
	}
}

// send sends the words of a line to a run. The id makes a line that comes twice count once.
func send(ctx context.Context, c pawl.Client, words []string, id pawl.SendOption) (string, error) {
	switch len(words) {
	case 1:
		return stage.Get(ctx, c, words[0])
	case 2:
		return "", report.Send(ctx, c, words[0], words[1], id)
	case 3:
		return decide.Send(ctx, c, words[0], decision{By: words[1], Yes: words[2] == "yes"}, id)
	}
	return "", errors.New("want: change-1 ada yes, change-1 works, or change-1")
}
