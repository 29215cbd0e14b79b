package pawltest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// faulty are the calls of a client that can be made to fail.
var faulty = []string{"StartRun", "SendEvent", "SendUpdate", "Operate", "RestartRun", "DescribeRun", "ListRuns"}

// faults are those that calls of the client have before them.
type faults struct {
	mu   sync.Mutex
	next map[string][]fault
}

type fault struct {
	err  error
	made bool // the call is made, and its answer is lost
}

// FailCall makes the next call of the client's method of that name fail with an error, and not be made: StartRun, which
// pawl.Workflow.Start calls, SendEvent, SendUpdate, Operate, RestartRun, DescribeRun or ListRuns. Several add up. A
// fault that no call meets fails the test when it ends.
func (e *Env) FailCall(method string, err error) {
	e.checkMade()
	e.t.Helper()
	e.fault(method, fault{err: err})
}

// LoseAnswer works as FailCall, but the call is made: only its answer is lost, and the caller gets the error instead.
// So a test shows that a caller may ask again: with an idempotency key, or with an id of what it sends.
func (e *Env) LoseAnswer(method string, err error) {
	e.checkMade()
	e.t.Helper()
	e.fault(method, fault{err: err, made: true})
}

func (e *Env) fault(method string, f fault) {
	e.t.Helper()
	if !slices.Contains(faulty, method) {
		e.t.Fatalf("pawltest: calls of %q cannot fail: those of %s can", method, strings.Join(faulty, ", "))
	}
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	e.faults.next[method] = append(e.faults.next[method], f)
}

// take returns the fault of a call; nil: it has none.
func (s *faults) take(method string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.next[method]
	if len(left) == 0 {
		return nil
	}
	s.next[method] = left[1:]
	return &left[0]
}

// check fails a test whose faults were not all met.
func (s *faults) check(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for method, left := range s.next {
		if len(left) > 0 {
			t.Errorf("pawltest: %d faults of %s were met by no call", len(left), method)
		}
	}
}

// met makes a call, or lets it fail.
func met[T any](s *faults, method string, call func() (T, error)) (T, error) {
	var zero T
	f := s.take(method)
	if f == nil {
		return call()
	}
	if f.made {
		if _, err := call(); err != nil {
			return zero, err
		}
	}
	return zero, f.err
}

// faultyClient is the client of an engine under test.
type faultyClient struct {
	pawl.Client
	faults *faults
}

func (c faultyClient) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	return met(c.faults, "StartRun", func() (client.Started, error) { return c.Client.StartRun(ctx, r) })
}

func (c faultyClient) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	_, err := met(c.faults, "SendEvent", func() (struct{}, error) {
		return struct{}{}, c.Client.SendEvent(ctx, id, r)
	})
	return err
}

func (c faultyClient) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	return met(c.faults, "SendUpdate", func() (client.Answer, error) { return c.Client.SendUpdate(ctx, id, r) })
}

func (c faultyClient) Operate(ctx context.Context, id string, op pawl.Operation) error {
	_, err := met(c.faults, "Operate", func() (struct{}, error) { return struct{}{}, c.Client.Operate(ctx, id, op) })
	return err
}

func (c faultyClient) RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error) {
	return met(c.faults, "RestartRun", func() (string, error) { return c.Client.RestartRun(ctx, id, r) })
}

func (c faultyClient) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	return met(c.faults, "DescribeRun", func() (client.Description, error) { return c.Client.DescribeRun(ctx, id) })
}

func (c faultyClient) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return met(c.faults, "ListRuns", func() ([]client.Summary, error) { return c.Client.ListRuns(ctx, q) })
}
