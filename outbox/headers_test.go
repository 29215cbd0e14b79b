package outbox_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/outbox"
)

type tenantKey struct{}

// tenants is a propagator for a tenant.
type tenants struct{}

func (tenants) ToHeaders(ctx context.Context) map[string]string {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		return map[string]string{"tenant": tenant}
	}
	return nil
}

func (tenants) FromHeaders(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, tenantKey{}, headers["tenant"])
}

// TestHeaders checks that values in the context of the transaction go along with the run, though the relay has another
// context.
func TestHeaders(t *testing.T) {
	ran := make(chan string, 1)
	tenant := pawl.Define("tenant", func(ctx pawl.Context, _ int) (string, error) {
		return pawl.Step(ctx, "read", func(ctx context.Context) (string, error) {
			tenant, _ := ctx.Value(tenantKey{}).(string)
			ran <- tenant
			return tenant, nil
		})
	})
	propagators := []pawl.Propagator{tenants{}}
	s := openShop(t, outbox.Config{Propagators: propagators, Every: time.Millisecond})
	e := openEngine(t, pawl.Config{Propagators: propagators}, tenant)
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	s.inTx(t, func(tx outbox.Tx) error {
		return outbox.StartIn(ctx, s.box, tx, tenant, "x", 1, pawl.Headers(map[string]string{"shop": "eu"}))
	})
	relay, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- s.box.Relay(relay, e) }()
	defer func() {
		stop()
		<-relayed
	}()
	if got := <-ran; got != "acme" {
		t.Errorf("the step saw the tenant %q", got)
	}
	d, err := e.DescribeRun(t.Context(), "x")
	if want := map[string]string{"tenant": "acme", "shop": "eu"}; err != nil || !maps.Equal(d.Headers, want) {
		t.Errorf("headers %v, %v", d.Headers, err)
	}
}

// TestCarriedThatNoEngineTakes checks that labels and headers that no engine takes are refused before anything is
// written.
func TestCarriedThatNoEngineTakes(t *testing.T) {
	w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 0, nil })
	s := openShop(t, outbox.Config{})
	tx, err := s.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for want, opt := range map[string]pawl.StartOption{
		"the headers have": pawl.Headers(map[string]string{"a": strings.Repeat("x", 5000)}),
		"a label has":      pawl.Labels(map[string]string{"": "x"}),
	} {
		err := outbox.StartIn(t.Context(), s.box, outbox.SQLTx(tx), w, "x", 1, opt)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// torn is a propagator that panics where it should say what a context holds.
type torn struct{ pawl.Propagator }

func (torn) ToHeaders(context.Context) map[string]string { panic("no tenant") }

// TestPropagatorThatPanics checks that the start in a transaction fails, which can be rolled back then.
func TestPropagatorThatPanics(t *testing.T) {
	w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 1, nil })
	s := openShop(t, outbox.Config{Propagators: []pawl.Propagator{torn{}}})
	s.inTx(t, func(tx outbox.Tx) error {
		err := outbox.StartIn(t.Context(), s.box, tx, w, "x", 1)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "torn panicked in ToHeaders: no tenant") {
			t.Errorf("the start: %v", err)
		}
		return nil
	})
}
