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
	"github.com/pawl-dev/pawl/outbox"
)

// recorder is a client that keeps what it is asked for.
type recorder struct {
	pawl.Client
	mu     sync.Mutex
	starts []client.StartRequest
	events []client.SendRequest
	runs   []string // of the events
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

// Messages as they are in people's databases. The old ones were written before messages had a format.
const (
	oldStart = `{"start":{"Workflow":"order","ID":"order-1","Key":"key-1","Input":"NDI=","UseExisting":true,` +
		`"At":"2026-01-02T03:04:05.000006Z","Deadline":"2100-01-02T03:04:05+01:00","Actor":"ann",` +
		`"Reason":"\u003cbecause\u003e","Steps":null,"From":""}}`
	oldPlainStart = `{"start":{"Workflow":"order","ID":"","Key":"","Input":"NDI=","UseExisting":false,` +
		`"At":"0001-01-01T00:00:00Z","Deadline":"0001-01-01T00:00:00Z","Actor":"","Reason":"","Steps":null,"From":""}}`
	oldEvent = `{"run":"order-1","event":"paid","body":"Nw=="}`

	newStart = `{"format":1,"start":{"workflow":"order","id":"order-1","key":"key-1","input":"NDI=",` +
		`"useExisting":true,"at":"2026-01-02T03:04:05.000006Z","deadline":"2100-01-02T03:04:05+01:00","actor":"ann",` +
		`"reason":"\u003cbecause\u003e"}}`
	newPlainStart = `{"format":1,"start":{"workflow":"order","input":"NDI="}}`
	newEvent      = `{"format":1,"run":"order-1","event":"paid","body":"Nw=="}`
)

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
	if want := []string{newStart, newPlainStart, newEvent}; !slices.Equal(got, want) {
		t.Errorf("written:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReadsAllFormats delivers literal messages of each format: they ask for the same.
func TestReadsAllFormats(t *testing.T) {
	for format, messages := range map[string][3]string{
		"0": {oldStart, oldPlainStart, oldEvent},
		"1": {newStart, newPlainStart, newEvent},
	} {
		t.Run(format, func(t *testing.T) {
			s := openShop(t, outbox.Config{})
			s.insert(t, "a", messages[0])
			s.insert(t, "b", messages[1])
			s.insert(t, "c", messages[2])
			var got recorder
			if err := s.box.RelayOnce(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.starts) != 2 || len(got.events) != 1 {
				t.Fatalf("%d starts and %d events, failures %q", len(got.starts), len(got.events), s.failures(t))
			}
			slices.SortFunc(got.starts, func(a, b client.StartRequest) int { return strings.Compare(b.ID, a.ID) })
			full := client.StartRequest{
				Workflow: "order", ID: "order-1", Key: "key-1", Input: []byte("42"), UseExisting: true, At: startAt,
				Deadline: deadline, Actor: "ann", Reason: "<because>",
			}
			if r := &got.starts[0]; r.Deadline.Equal(deadline) {
				r.Deadline = deadline // whatever the machine calls the time zone
			}
			plain := client.StartRequest{Workflow: "order", Key: "outbox:b", Input: []byte("42")}
			if !reflect.DeepEqual(got.starts, []client.StartRequest{full, plain}) {
				t.Errorf("starts:\n%+v\nwant:\n%+v", got.starts, []client.StartRequest{full, plain})
			}
			event := client.SendRequest{Name: "paid", ID: "outbox:c", Payload: []byte("7")}
			if got.runs[0] != "order-1" || !reflect.DeepEqual(got.events[0], event) {
				t.Errorf("event for %s: %+v, want %+v", got.runs[0], got.events[0], event)
			}
		})
	}
}

// TestOldRowsReachTheEngine relays rows of the time before formats into a real engine.
func TestOldRowsReachTheEngine(t *testing.T) {
	w := pawl.Define("order", func(ctx pawl.Context, n int) (int, error) {
		paid, err := pawl.Event[int]("paid").Wait(ctx)
		return n + paid, err
	})
	e := openEngine(t, pawl.Config{}, w)
	s := openShop(t, outbox.Config{})
	s.insert(t, "1f0c", oldStart)
	s.insert(t, "2e1d", oldEvent)
	if err := s.box.RelayOnce(t.Context(), e); err != nil || s.waiting(t) != 0 || len(s.failures(t)) != 0 {
		t.Fatalf("%d messages wait, failures %q, %v", s.waiting(t), s.failures(t), err)
	}
	if got, err := pawl.RunOf[int](e, "order-1").Result(t.Context()); err != nil || got != 49 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestUnreadableMessages: what no version of Pawl can read is marked. What a newer one has written stays as it is. It
// holds back the messages for the same run, and no others: every format names the recipient in the same place.
func TestUnreadableMessages(t *testing.T) {
	s := openShop(t, outbox.Config{})
	s.insert(t, "a", "{")
	s.insert(t, "b", `{"format":1}`)
	s.insert(t, "c", newPlainStart)
	s.insert(t, "d", `{"format":2,"event":["of a shape that is not known yet"],"run":"order-1"}`)
	s.insert(t, "e", newEvent)
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
