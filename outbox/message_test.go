package outbox_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/outbox"
)

// recorder is a client that keeps what it is asked for.
type recorder struct {
	pawl.Client
	mu     sync.Mutex
	starts []client.StartRequest
	events []client.SendRequest
	runs   []string // the runs of the events
}

func (r *recorder) StartRun(_ context.Context, req client.StartRequest) (client.Started, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, req)
	return client.Started{}, nil
}

func (r *recorder) SendEvent(_ context.Context, run string, e client.SendRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs, r.events = append(r.runs, run), append(r.events, e)
	return nil
}

// written returns the messages as version 0.1.0 wrote them, and as they are in people's databases: a start with all
// options, one without any, and an event.
func written(t *testing.T) (full, plain, event string) {
	t.Helper()
	lines := strings.Split(string(golden.Read(t, "messages.txt")), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	return lines[0], lines[1], lines[2]
}

var (
	startAt  = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	deadline = time.Date(2100, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	options  = []pawl.StartOption{
		pawl.IdempotencyKey("key-1"), pawl.UseExisting(), pawl.StartAt(startAt), pawl.RunDeadline(deadline),
		pawl.By("ann", "<because>"),
	}
)

// TestWrittenMessages holds the text of new messages: a change of it is a new format.
func TestWrittenMessages(t *testing.T) {
	w := pawl.Define("order", func(_ pawl.Context, n int) (int, error) { return n, nil })
	box, err := outbox.New(nil, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	tx := outbox.Tx(func(_ context.Context, _ string, args ...any) error {
		got = append(got, args[1].(string))
		return nil
	})
	for _, err := range []error{
		outbox.StartIn(t.Context(), box, tx, w, "order-1", 42, options...),
		outbox.StartIn(t.Context(), box, tx, w, "", 42),
		outbox.SendIn(t.Context(), box, tx, "order-1", "paid", 7),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden.Same(t, "messages.txt", []byte(strings.Join(got, "\n")+"\n"))
}

// TestReadsMessages delivers literal messages.
func TestReadsMessages(t *testing.T) {
	s := openShop(t, outbox.Config{})
	start, plain, event := written(t)
	s.insert(t, "a", start)
	s.insert(t, "b", plain)
	s.insert(t, "c", event)
	var got recorder
	if err := s.box.RelayOnce(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.starts) != 2 || len(got.events) != 1 {
		t.Fatalf("%d starts and %d events, failures %q", len(got.starts), len(got.events), s.failures(t))
	}
	slices.SortFunc(got.starts, func(a, b client.StartRequest) int { return strings.Compare(b.ID, a.ID) })
	full := client.StartRequest{
		Workflow: "order", ID: "order-1", IdempotencyKey: "key-1", Input: []byte("42"), UseExisting: true, At: startAt,
		Deadline: deadline, Actor: "ann", Reason: "<because>",
	}
	if r := &got.starts[0]; r.Deadline.Equal(deadline) {
		r.Deadline = deadline // whatever the machine calls the time zone
	}
	without := client.StartRequest{Workflow: "order", IdempotencyKey: "outbox:b", Input: []byte("42")}
	if !reflect.DeepEqual(got.starts, []client.StartRequest{full, without}) {
		t.Errorf("starts:\n%+v\nwant:\n%+v", got.starts, []client.StartRequest{full, without})
	}
	sent := client.SendRequest{Name: "paid", ID: "outbox:c", Payload: []byte("7")}
	if got.runs[0] != "order-1" || !reflect.DeepEqual(got.events[0], sent) {
		t.Errorf("event for %s: %+v, want %+v", got.runs[0], got.events[0], sent)
	}
}

// TestUnreadableMessages checks that a message that no version of Pawl can read is marked. A message of a newer version
// stays as it is. It holds back the messages for the same run, and no others: every format names the recipient in the
// same place.
func TestUnreadableMessages(t *testing.T) {
	_, plain, event := written(t)
	s := openShop(t, outbox.Config{})
	s.insert(t, "a", "{")
	s.insert(t, "b", `{"format":1}`)
	s.insert(t, "c", plain)
	s.insert(t, "d", `{"format":2,"event":["of a shape that is not known yet"],"run":"order-1"}`)
	s.insert(t, "e", event)
	s.insert(t, "f", `{"format":2,"start":{"workflow":7,"id":"order-2"}}`)
	s.insert(t, "g", `{"format":1,"run":"order-2","event":"paid","body":"Nw=="}`)
	s.insert(t, "h", `{"format":2,"start":["not even a recipient"]}`)
	s.insert(t, "i", `{"format":1,"run":"order-3","event":"paid","body":"Nw=="}`)
	var got recorder
	err := s.box.RelayOnce(t.Context(), &got)
	newer := "row 4: format 2: the message was written by a newer version of Pawl"
	if err == nil || !strings.Contains(err.Error(), newer) {
		t.Errorf("%v", err)
	}
	if len(got.starts) != 1 || !slices.Equal(got.runs, []string{"order-3"}) || s.waiting(t) != 5 {
		t.Errorf("%d starts and events for %q were delivered, %d messages wait", len(got.starts), got.runs,
			s.waiting(t))
	}
	want := []string{"the message cannot be read", "neither a start nor an event"}
	if failures := s.failures(t); !slices.EqualFunc(failures, want, strings.Contains) {
		t.Errorf("failures %q", failures)
	}
}
