package temporal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// play does what a line of a transcript says. It must not be refused.
func (b *bed) play(line string) {
	b.Helper()
	words := strings.Fields(line)
	out := b.act(words)
	if strings.Contains(out, "there is none") || words[0] != "work" && strings.HasPrefix(out, words[0]+":") {
		b.Fatal(out)
	}
	synctest.Wait()
}

// gone reports how the protocol answers for the run that was tried.
func (b *bed) gone() error {
	_, err := b.server.DescribeWorkflowExecution(b.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: Namespace, Execution: b.named(),
	})
	return err
}

// stored counts what the journal has of the run that was tried.
func (b *bed) stored() int {
	b.Helper()
	id, err := core.ParseRunID(b.run)
	if err != nil {
		b.Fatal(err)
	}
	h, err := b.journal.History(b.Context(), id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		b.Fatal(err)
	}
	return len(h.Entries)
}

// TestDelete checks that a run is gone with its history once its deletion is answered: one that has ended, and one that
// is open, which is terminated first.
func TestDelete(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
	}{
		{"ended", []string{"take", "answer complete"}},
		{"ended long ago", []string{"take", "answer complete", "after 1h"}},
		{"ended before a restart", []string{"take", "answer complete", "crash"}},
		{"open", nil},
		{"asleep", []string{"take", "answer timer t 24h", "after 1h"}},
		{"with work that runs", []string{"take", "answer activity a attempt=1h", "work"}},
		{"with a task that a worker has", []string{"take"}},
		{"continued", []string{"take", "answer new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				for _, line := range append([]string{"start"}, c.lines...) {
					b.play(line)
				}
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				defer cancel()
				_, err := b.server.DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
					Namespace: Namespace, WorkflowExecution: b.named(),
				})
				if err != nil {
					b.Fatal(err)
				}
				var none *serviceerror.NotFound
				if err := b.gone(); !errors.As(err, &none) || b.stored() != 0 {
					b.Errorf("a run that was deleted: %v, %d entries", err, b.stored())
				}
				if err := b.remove(nil); !errors.As(err, &none) {
					b.Errorf("the second deletion: %v", err)
				}
				b.close()
				b.open()
				if err := b.gone(); !errors.As(err, &none) || b.stored() != 0 {
					b.Errorf("after a restart: %v, %d entries", err, b.stored())
				}
			})
		})
	}
}

// TestDeleteOfOneRun checks that the next run of a chain stays when one is deleted, and that its workflow id is free
// once the last one is.
func TestDeleteOfOneRun(t *testing.T) {
	bubble(t, func(b *bed) {
		b.play("start")
		b.play("take")
		first := b.run
		b.play("answer new")
		if err := b.remove(nil); err != nil {
			b.Fatal(err)
		}
		b.next()
		if b.run == first {
			b.Fatal("the workflow id finds the run that was deleted")
		}
		out, err := b.server.DescribeWorkflowExecution(b.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: Namespace, Execution: b.named(),
		})
		if err != nil || out.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			b.Fatalf("the next run: %v, %v", out.GetWorkflowExecutionInfo().GetStatus(), err)
		}
		if err := b.remove([]string{b.id}); err != nil {
			b.Fatal(err)
		}
		b.play("start reuse=WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE")
	})
}

// TestDeleteWakesReaders checks that who waits for more of a history hears that it is gone.
func TestDeleteWakesReaders(t *testing.T) {
	bubble(t, func(b *bed) {
		b.play("start")
		heard := make(chan error, 1)
		go func() {
			for token := []byte(nil); ; {
				out, err := b.server.GetWorkflowExecutionHistory(b.Context(),
					&workflowservice.GetWorkflowExecutionHistoryRequest{
						Execution: b.named(), WaitNewEvent: true, NextPageToken: token,
					})
				if err != nil {
					heard <- err
					return
				}
				token = out.NextPageToken
				if len(token) == 0 {
					heard <- nil
					return
				}
			}
		}()
		synctest.Wait()
		if err := b.remove(nil); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-heard:
		default:
			b.Error("a reader still waits for a run that was deleted")
		}
	})
}

// TestDeleteIsRefused checks how a deletion is refused that names no run.
func TestDeleteIsRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		var none *serviceerror.NotFound
		if err := b.remove([]string{"nobody"}); !errors.As(err, &none) {
			b.Errorf("an unknown workflow id: %v", err)
		}
		for _, x := range []*commonpb.WorkflowExecution{nil, {}, {WorkflowId: "a", RunId: "no id"}} {
			_, err := b.server.DeleteWorkflowExecution(b.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				WorkflowExecution: x,
			})
			var invalid *serviceerror.InvalidArgument
			if !errors.As(err, &invalid) {
				b.Errorf("%v: %v", x, err)
			}
		}
	})
}
