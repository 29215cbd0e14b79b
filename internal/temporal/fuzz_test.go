package temporal

import (
	"testing"

	commandpb "go.temporal.io/api/command/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/activities"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// FuzzTokens gives forged, truncated and foreign tokens to everything that takes one. All of them are refused as the
// protocol says it, and none of them harms the run that is there.
func FuzzTokens(f *testing.F) {
	for _, seed := range []string{"", "w", "a", "q", "h", "w0123456789abcdef01234567\x01\x00\x01"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		bubble(t, func(b *bed) {
			if err := b.start(options{}); err != nil {
				b.Fatal(err)
			}
			t, ctx := b.T, b.Context()
			_, completed := b.server.RespondWorkflowTaskCompleted(ctx,
				&workflowservice.RespondWorkflowTaskCompletedRequest{TaskToken: token})
			_, failed := b.server.RespondWorkflowTaskFailed(ctx,
				&workflowservice.RespondWorkflowTaskFailedRequest{TaskToken: token})
			_, done := b.server.RespondActivityTaskCompleted(ctx,
				&workflowservice.RespondActivityTaskCompletedRequest{TaskToken: token})
			_, beat := b.server.RecordActivityTaskHeartbeat(ctx,
				&workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: token})
			_, answered := b.server.RespondQueryTaskCompleted(ctx,
				&workflowservice.RespondQueryTaskCompletedRequest{TaskToken: token})
			for _, err := range []error{completed, failed, done, beat, answered} {
				refused(t, err)
			}
			if len(token) > 0 {
				_, read := b.server.GetWorkflowExecutionHistory(ctx,
					&workflowservice.GetWorkflowExecutionHistoryRequest{NextPageToken: token})
				if read != nil {
					refused(t, read)
				}
			}
			if n := len(b.history()); n != 2 {
				t.Errorf("the history has %d events", n)
			}
		})
	})
}

// refused fails the test unless an error says that a token makes no sense, or that there is no such task.
func refused(t *testing.T, err error) {
	t.Helper()
	switch plain(err).(type) {
	case *serviceerror.InvalidArgument, *serviceerror.NotFound:
	default:
		t.Errorf("a token is answered with %v", err)
	}
}

// FuzzAnswers gives a run any bytes as the commands of its worker. Whatever the answer is, the history keeps its rules,
// and the run can go on.
func FuzzAnswers(f *testing.F) {
	for _, words := range [][]string{
		{"activity", "a", "attempt=1s"},
		{"timer", "t", "1s"},
		{"cancel-timer", "t"},
		{"cancel-activity", "5"},
		{"marker", "m"},
		{"complete"},
		{"fail"},
		{"cancel"},
		{"new"},
	} {
		raw, err := proto.Marshal(&workflowservice.RespondWorkflowTaskCompletedRequest{
			Commands: []*commandpb.Command{command(words), command(words)},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := &workflowservice.RespondWorkflowTaskCompletedRequest{}
		if proto.Unmarshal(raw, q) != nil {
			return
		}
		bubble(t, func(b *bed) {
			if err := b.start(options{}); err != nil {
				b.Fatal(err)
			}
			b.takeTask(options{})
			q.TaskToken = b.task.TaskToken
			_, err := b.server.RespondWorkflowTaskCompleted(b.Context(), q)
			if err != nil {
				refused(b.T, err)
			}
			b.history()
			b.act([]string{"signal", "one"})
			b.history()
		})
	})
}

// FuzzFold folds any bytes as an answer that was recorded: none of them panics, since a newer version may have written
// them.
func FuzzFold(f *testing.F) {
	f.Add([]byte{1, 1}, 1)
	f.Add([]byte{9, 1, 7}, 5)
	f.Fuzz(func(t *testing.T, meta []byte, seen int) {
		fold := history.New(core.RunID{6: 0x70})
		fold.Add(core.Entry{Records: []core.Record{core.RunCreated{}}})
		fold.Add(core.Entry{Records: []core.Record{core.BodyAnswered{Seen: seen, Meta: meta}}})
		fold.Add(core.Entry{Records: []core.Record{core.RunEnded{Phase: core.RunTerminated}}})
		for i, e := range fold.View(3) {
			if e.EventId != int64(i)+1 {
				t.Errorf("event %d has the id %d", i+1, e.EventId)
			}
		}
	})
}

// TestTokens checks that tokens are read as they were written, and in no other way.
func TestTokens(t *testing.T) {
	want := activities.Token{Attempt: core.Token{Run: core.RunID{1, 2}, Step: 7, Attempt: 300}, Secret: 1 << 63}
	b := want.Bytes()
	if got, ok := activities.ReadToken(b); !ok || got != want {
		t.Errorf("%+v, %t", got, ok)
	}
	for n := range b {
		if _, ok := activities.ReadToken(b[:n]); ok {
			t.Errorf("%d bytes of it are a token", n)
		}
	}
	if _, ok := activities.ReadToken(append(b, 0)); ok {
		t.Error("a longer one is a token")
	}
	at := page{core.RunID{3}, 1000}
	if got, ok := readPage(at.bytes()); !ok || got != at {
		t.Errorf("%+v, %t", got, ok)
	}
}
