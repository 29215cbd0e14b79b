package pawl_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
)

func ExampleIdempotencyKey() {
	w := pawl.Define("import", func(_ pawl.Context, file string) (string, error) { return file + " imported", nil })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	first, _ := w.Start(ctx, eng, "", "a.csv", pawl.IdempotencyKey("import of a.csv"))
	fmt.Println(first.Result(ctx))
	again, _ := w.Start(ctx, eng, "", "a.csv", pawl.IdempotencyKey("import of a.csv"))
	fmt.Println(again.Existing, again.ID == first.ID)
	// Output:
	// a.csv imported <nil>
	// true true
}

func ExampleUseExisting() {
	w := pawl.Define("wait", func(ctx pawl.Context, _ any) (int, error) { return pawl.Event[int]("go").Wait(ctx) })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	first, _ := w.Start(ctx, eng, "customer-7", nil)
	_, err := w.Start(ctx, eng, "customer-7", nil)
	fmt.Println(errors.Is(err, pawl.ErrConflict))
	same, _ := w.Start(ctx, eng, "customer-7", nil, pawl.UseExisting())
	fmt.Println(same.ID == first.ID)
	// Output:
	// true
	// true
}

func ExampleStartAt() {
	w := pawl.Define("later", func(ctx pawl.Context, _ any) (string, error) { return "began", nil })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	run, _ := w.Start(context.Background(), eng, "", nil, pawl.StartAt(time.Now().Add(5*time.Millisecond)))
	fmt.Println(run.Result(context.Background()))
	// Output: began <nil>
}

func ExampleRun_Cancel() {
	w := pawl.Define("long", func(ctx pawl.Context, _ any) (any, error) { return nil, pawl.Sleep(ctx, "nap", "30d") })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "", nil)
	if err := run.Cancel(ctx, "changed my mind"); err != nil {
		fmt.Println(err)
	}
	_, err := run.Result(ctx)
	fmt.Println(errors.Is(err, pawl.ErrCancelled))
	// Output: true
}

func ExampleEngine_Operate() {
	w := pawl.Define("pay", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Step(ctx, "charge", func(context.Context) (string, error) {
			return "", errors.New("the bank is down")
		})
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "order-1", nil)
	_, err := run.Result(ctx)
	fmt.Println(err != nil)
	// An operator has the failed step tried again, with a fresh budget: the run goes on.
	err = eng.Operate(ctx, "order-1", pawl.Operation{
		Op: client.OpRetryStep, Step: "charge",
		Actor: "ann", Reason: "the bank is up",
	})
	fmt.Println(err)
	_, _ = run.Result(ctx)
	d, _ := eng.DescribeRun(ctx, "order-1")
	fmt.Println(d.Phase, d.Steps[0].Name, d.Steps[0].Attempts)
	// Output:
	// true
	// <nil>
	// failed charge 1
}

func ExampleClient_restart() {
	calls := map[string]int{}
	w := pawl.Define("report", func(ctx pawl.Context, _ any) (string, error) {
		for _, name := range []string{"collect", "render"} {
			if err := pawl.Do(ctx, name, func(context.Context) error { calls[name]++; return nil }); err != nil {
				return "", err
			}
		}
		return "report", nil
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "", nil)
	_, _ = run.Result(ctx)
	id, err := eng.RestartRun(ctx, run.ID, client.RestartRequest{Steps: []string{"render"}})
	fmt.Println(err)
	fmt.Println(pawl.RunOf[string](eng, id).Result(ctx))
	fmt.Println(calls)
	// Output:
	// <nil>
	// report <nil>
	// map[collect:1 render:2]
}

func ExampleEngine_ListRuns() {
	w := pawl.Define("job", func(_ pawl.Context, _ any) (any, error) { return nil, nil })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	for _, id := range []string{"a", "b"} {
		run, _ := w.Start(ctx, eng, id, nil)
		_, _ = run.Result(ctx)
	}
	runs, err := eng.ListRuns(ctx, client.Query{Workflow: "job"})
	for _, r := range runs {
		fmt.Println(r.WorkflowID, r.Phase)
	}
	fmt.Println(err)
	// Output:
	// b succeeded
	// a succeeded
	// <nil>
}

func ExampleWorkflow_EnsureSchedule() {
	w := pawl.Define("backup", func(_ pawl.Context, what string) (string, error) { return what + " saved", nil })
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()

	// Each time the program starts: a schedule that is there already stays, or is changed.
	nightly, err := w.EnsureSchedule(ctx, eng, "nightly",
		client.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin", CatchUp: time.Hour}, "home")
	fmt.Println(err)

	d, err := nightly.Describe(ctx)
	fmt.Println(d.Workflow, d.Cron, d.Zone, d.Paused.IsZero(), d.Missed, err)

	fmt.Println(nightly.Delete(ctx, "not needed any more"))
	// Output:
	// <nil>
	// backup 30 2 * * * Europe/Berlin true 0 <nil>
	// <nil>
}

// sealed is a codec that encrypts: AES-GCM around JSON, as a JSON string. It encrypts with the current key and stores
// the key's id beside the value, so it can still read what other keys have encrypted.
type sealed struct {
	keys    map[string]cipher.AEAD // the keys by id
	current string
}

func newSealed(current string, keys map[string]string) (sealed, error) {
	s := sealed{map[string]cipher.AEAD{}, current}
	for id, key := range keys {
		block, err := aes.NewCipher([]byte(key))
		if err != nil {
			return sealed{}, err
		}
		if s.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return sealed{}, err
		}
	}
	return s, nil
}

func (s sealed) Encode(_ context.Context, p *pawl.Payload, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	p.Meta = map[string]string{"key": s.current}
	return json.Marshal(s.keys[s.current].Seal(nil, nil, plain, []byte(p.Kind))) // bytes become a base64 string
}

func (s sealed) Decode(_ context.Context, p pawl.Payload, data []byte, v any) error {
	key := s.keys[p.Meta["key"]]
	if key == nil {
		return fmt.Errorf("the key %q is not here", p.Meta["key"])
	}
	var box []byte
	if err := json.Unmarshal(data, &box); err != nil {
		return err
	}
	plain, err := key.Open(nil, nil, box, []byte(p.Kind))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

func ExampleCodec() {
	w := pawl.Define("secret", func(ctx pawl.Context, in string) (string, error) {
		return pawl.Step(ctx, "s", func(context.Context) (string, error) { return "top " + in, nil })
	})
	ctx, j := context.Background(), memory.New()
	keys := map[string]string{"2026": "0123456789abcdef", "2027": "fedcba9876543210"}
	for _, current := range []string{"2026", "2027"} { // the program of one year, then that of the next
		codec, err := newSealed(current, keys)
		if err != nil {
			fmt.Println(err)
			return
		}
		eng, err := pawl.Open(ctx, pawl.Config{Journal: j, Codec: codec, Workflows: []pawl.Definition{w}})
		if err != nil {
			fmt.Println(err)
			return
		}
		run, err := w.Start(ctx, eng, "of "+current, current)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(run.Result(ctx))
		fmt.Println(pawl.RunOf[string](eng, "of 2026").Result(ctx)) // also with the key of 2027
		d, _ := eng.DescribeRun(ctx, "of "+current)
		fmt.Println(string(d.Output[:len(`{"pawl.meta":{"key":"2026"}`)]))
		_ = eng.Close()
	}
	// Output:
	// top 2026 <nil>
	// top 2026 <nil>
	// {"pawl.meta":{"key":"2026"}
	// top 2027 <nil>
	// top 2026 <nil>
	// {"pawl.meta":{"key":"2027"}
}

func ExampleInterceptor() {
	w := pawl.Define("traced", func(ctx pawl.Context, _ any) (int, error) {
		return pawl.Step(ctx, "work", func(context.Context) (int, error) { return 1, nil })
	})
	ctx := context.Background()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "memory:",
		Intercept: func(
			ctx context.Context, a client.AttemptInfo, next func(context.Context) ([]byte, error),
		) ([]byte, error) {
			fmt.Println("begin", a.Workflow, a.Step, a.Number)
			defer fmt.Println("end")
			return next(ctx)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	run, _ := w.Start(ctx, eng, "", nil)
	fmt.Println(run.Result(ctx))
	// Output:
	// begin traced work 1
	// end
	// 1 <nil>
}

// tenantKey is the key of the tenant in the context of a request.
type tenantKey struct{}

// tenants takes the tenant of a request along with the runs that it starts.
type tenants struct{}

func (tenants) ToHeaders(ctx context.Context) map[string]string {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		return map[string]string{"tenant": tenant}
	}
	return nil // somebody else's start
}

func (tenants) FromHeaders(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, tenantKey{}, headers["tenant"])
}

func ExamplePropagator() {
	bill := pawl.Define("bill", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return fmt.Sprint("charged ", ctx.Value(tenantKey{})), nil // as in the request, also after a restart
		})
	})
	eng, _ := pawl.Open(context.Background(), pawl.Config{
		Journal: memory.New(), Workflows: []pawl.Definition{bill}, Propagators: []pawl.Propagator{tenants{}},
	})
	defer func() { _ = eng.Close() }()
	request := context.WithValue(context.Background(), tenantKey{}, "acme")
	run, _ := bill.Start(request, eng, "", nil)
	fmt.Println(run.Result(context.Background()))
	// Output: charged acme <nil>
}
