package facetest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/outbox"
	"github.com/pawl-dev/pawl/pawlcluster"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawlotel"
	"github.com/pawl-dev/pawl/pawltest"
)

// nilFunctions are the functions that programs call, each with types where it wants some.
var nilFunctions = map[string]any{
	"pawl.Define": pawl.Define[int, int], "pawl.Ref": pawl.Ref[int, int], "pawl.RunTimeout": pawl.RunTimeout[string],
	"pawl.ExecutionTimeout": pawl.ExecutionTimeout[string], "pawl.TaskTimeout": pawl.TaskTimeout[string],
	"pawl.RunRetry": pawl.RunRetry[string], "pawl.RunQueue": pawl.RunQueue, "pawl.Defaults": pawl.Defaults,
	"pawl.ForStep": pawl.ForStep, "pawl.OnFailure": pawl.OnFailure[int], "pawl.OnCancel": pawl.OnCancel[int],
	"pawl.OnExit": pawl.OnExit[int], "pawl.IdempotencyKey": pawl.IdempotencyKey, "pawl.UseExisting": pawl.UseExisting,
	"pawl.StartAt": pawl.StartAt, "pawl.RunDeadline": pawl.RunDeadline, "pawl.By": pawl.By,
	"pawl.InQueue": pawl.InQueue, "pawl.Labels": pawl.Labels, "pawl.RunOf": pawl.RunOf[int],
	"pawl.Headers": pawl.Headers, "pawl.SendID": pawl.SendID, "pawl.Go": pawl.Go[int], "pawl.All": pawl.All[int],
	"pawl.Select": pawl.Select, "pawl.Map": pawl.Map[int, int], "pawl.Attempt": pawl.Attempt,
	"pawl.Version": pawl.Version, "pawl.Now": pawl.Now, "pawl.Random": pawl.Random, "pawl.UUID": pawl.UUID,
	"pawl.Info": pawl.Info, "pawl.ContinueAsNew": pawl.ContinueAsNew[int], "pawl.SetLabel": pawl.SetLabel,
	"pawl.Logger": pawl.Logger, "pawl.Replay": pawl.Replay, "pawl.Retry": pawl.Retry[string],
	"pawl.Timeout": pawl.Timeout[string], "pawl.AttemptTimeout": pawl.AttemptTimeout[string],
	"pawl.QueueTimeout": pawl.QueueTimeout[string], "pawl.WorkTimeout": pawl.WorkTimeout[string],
	"pawl.HeartbeatTimeout": pawl.HeartbeatTimeout[string], "pawl.Within": pawl.Within[string],
	"pawl.Queue": pawl.Queue, "pawl.Service": pawl.Service, "pawl.Key": pawl.Key, "pawl.Priority": pawl.Priority,
	"pawl.Spread": pawl.Spread, "pawl.Abandon": pawl.Abandon, "pawl.TerminateWithParent": pawl.TerminateWithParent,
	"pawl.MustPolicy": pawl.MustPolicy, "pawl.OnExpireCancel": pawl.OnExpireCancel, "pawl.NoRetry": pawl.NoRetry,
	"pawl.Warn": pawl.Warn, "pawl.Handle": pawl.Handle[int, int], "pawl.HandlerRef": pawl.HandlerRef[int, int],
	"pawl.Step": pawl.Step[int], "pawl.Do": pawl.Do, "pawl.Async": pawl.Async[int], "pawl.Child": pawl.Child[int, int],
	"pawl.ChildAsync": pawl.ChildAsync[int, int], "pawl.Sleep": pawl.Sleep[string],
	"pawl.SleepAsync": pawl.SleepAsync[string], "pawl.SleepUntil": pawl.SleepUntil,
	"pawl.SleepUntilAsync": pawl.SleepUntilAsync, "pawl.WithCancel": pawl.WithCancel, "pawl.Detached": pawl.Detached,
	"pawl.CompensationTimeout": pawl.CompensationTimeout[string], "pawl.ScheduleOf": pawl.ScheduleOf,
	"pawl.NonRetryable": pawl.NonRetryable, "pawl.RetryAfter": pawl.RetryAfter,
	"pawl.RegisterError":      func(name string) { pawl.RegisterError[*pawl.StepError](name) },
	"pawl.RegisterErrorValue": pawl.RegisterErrorValue, "pawl.Open": pawl.Open,
	"outbox.SQLTx": outbox.SQLTx, "outbox.PgxTx": outbox.PgxTx[int], "outbox.StartIn": outbox.StartIn[int, int],
	"outbox.SendIn": outbox.SendIn[int], "outbox.Of": outbox.Of, "outbox.New": outbox.New,
	"pawlhttp.Handler": pawlhttp.Handler, "pawlhttp.Connect": pawlhttp.Connect, "pawlhttp.Serve": pawlhttp.Serve,
	"pawlotel.New": pawlotel.New, "pawltest.Run": pawltest.Run, "pawltest.RunWith": pawltest.RunWith,
	"pawltest.RunAt": pawltest.RunAt, "pawltest.RunNodes": pawltest.RunNodes, "pawltest.RunServer": pawltest.RunServer,
	"pawltest.Replay": pawltest.Replay, "pawltest.ReplayWith": pawltest.ReplayWith,
	"pawltest.ReplayDatabase": pawltest.ReplayDatabase, "pawltest.ReplayServer": pawltest.ReplayServer,
	"pawltest.FakeStep": pawltest.FakeStep[int], "pawltest.FakeCall": pawltest.FakeCall[int, int],
	"pawltest.FakeChild": pawltest.FakeChild[int, int],
}

// nilTypes are the types with methods that programs call, as pointers to zero values.
var nilTypes = map[string]any{
	"pawl.Workflow": new(pawl.Workflow[int, int]), "pawl.Run": new(pawl.Run[int]), "pawl.Event": new(pawl.Event[int]),
	"pawl.Update": new(pawl.Update[int, int]), "pawl.Future": new(pawl.Future[int]),
	"pawl.Heartbeat": new(pawl.Heartbeat[int]), "pawl.State": new(pawl.State[int]), "pawl.JSON": new(pawl.JSON),
	"pawl.Handler": new(pawl.Handler[int, int]), "pawl.StepError": new(pawl.StepError),
	"pawl.RunError": new(pawl.RunError), "pawl.UpdateError": new(pawl.UpdateError),
	"pawl.ChangedError": new(pawl.ChangedError), "pawl.UnreadableError": new(pawl.UnreadableError),
	"pawl.TaskTimeoutError": new(pawl.TaskTimeoutError), "pawl.PanicError": new(pawl.PanicError),
	"pawl.Compensations": new(pawl.Compensations), "pawl.ScheduleHandle": new(pawl.ScheduleHandle),
	"pawl.Engine": new(pawl.Engine), "outbox.Outbox": new(outbox.Outbox), "pawlhttp.Worker": new(pawlhttp.Worker),
	"pawlhttp.Client": new(pawlhttp.Client), "pawlcluster.Node": new(pawlcluster.Node),
	"pawlotel.Telemetry": new(pawlotel.Telemetry), "client.Schedule": new(client.Schedule),
	"client.Phase": new(client.Phase), "client.Explanation": new(client.Explanation), "pawltest.Env": new(pawltest.Env),
	"pawltest.Server": new(pawltest.Server), "pawltest.Fake": new(pawltest.Fake[int, int]),
}

// nilPointers are the types of which programs get pointers, so that one may be nil.
var nilPointers = []string{
	"pawl.Workflow", "pawl.Future", "pawl.Compensations", "pawl.Engine", "outbox.Outbox", "pawlhttp.Client",
	"pawlotel.Telemetry", "pawltest.Fake",
}

// TestNothingGiven calls all that programs can call with nothing in their arguments: nil contexts, clients, options and
// functions, empty texts; and methods of values that nobody has made. None of it may end in a fault of the runtime: the
// error says what is wrong, or a panic of the package's own does where nothing is returned.
func TestNothingGiven(t *testing.T) {
	known := slices.Sorted(maps.Keys(nilFunctions))
	methods := slices.Sorted(maps.Keys(nilTypes))
	for _, dir := range []string{
		".", "client", "outbox", "pawlcluster", "pawlhttp", "pawlotel", "pawltest",
	} {
		functions, types := exportedOf(t, dir)
		for _, name := range functions {
			if !slices.Contains(known, name) {
				t.Errorf("%s is called by no test without arguments: add it to nilFunctions", name)
			}
		}
		for _, name := range types {
			if !slices.Contains(methods, name) {
				t.Errorf("methods of %s are called by no test without arguments: add it to nilTypes", name)
			}
		}
	}
	for _, name := range known {
		if fn := nilFunctions[name]; fn != nil {
			for _, ctx := range []context.Context{nil, t.Context()} {
				given(t, name, reflect.ValueOf(fn), ctx, nil)
			}
		}
	}
	for _, name := range methods {
		made := reflect.ValueOf(nilTypes[name])
		on := []reflect.Value{made}
		if slices.Contains(nilPointers, name) {
			on = append(on, reflect.Zero(made.Type()))
		}
		for _, v := range on {
			for i := range v.NumMethod() {
				method := v.Type().Method(i).Name
				if v.IsNil() && isValueMethod(made.Type(), method) {
					continue // a method of values has no value where the pointer is nil
				}
				for _, ctx := range []context.Context{nil, t.Context()} {
					given(t, name+"."+v.Type().Method(i).Name, v.Method(i), ctx, nil)
				}
			}
		}
	}
}

// isValueMethod reports whether a method is one of the values of a pointer's type.
func isValueMethod(pointer reflect.Type, name string) bool {
	_, ok := pointer.Elem().MethodByName(name)
	return ok
}

// TestNothingGivenToAnEngine calls the methods of an engine that is open without arguments.
func TestNothingGivenToAnEngine(t *testing.T) {
	for i := range reflect.TypeFor[*pawl.Engine]().NumMethod() {
		for _, ctx := range []context.Context{nil, t.Context()} {
			e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New()})
			if err != nil {
				t.Fatal(err)
			}
			v := reflect.ValueOf(e)
			given(t, "Engine."+v.Type().Method(i).Name, v.Method(i), ctx, nil)
			_ = e.Close() // perhaps once more
		}
	}
}

// TestNothingGivenInABody calls in bodies all that takes their Context, without other arguments.
func TestNothingGivenInABody(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		inBody := reflect.TypeFor[pawl.Context]()
		try := func(name string, fn reflect.Value) {
			if fn.Type().NumIn() == 0 || fn.Type().In(0) != inBody {
				return
			}
			w := pawl.Define("nothing "+strings.ReplaceAll(name, "/", ""), func(ctx pawl.Context, _ int) (int, error) {
				given(t, name, fn, t.Context(), ctx)
				return 0, nil
			}, pawl.RunTimeout("1m"))
			r, err := w.Start(t.Context(), e, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Result(t.Context()); err != nil && !errors.Is(err, pawl.ErrInvalid) &&
				!errors.Is(err, pawl.ErrTimedOut) {
				t.Errorf("%s: the run ended with %v", name, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(nilFunctions)) {
			if nilFunctions[name] != nil {
				try(name, reflect.ValueOf(nilFunctions[name]))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(nilTypes)) {
			v := reflect.ValueOf(nilTypes[name])
			for i := range v.NumMethod() {
				try(name+"."+v.Type().Method(i).Name, v.Method(i))
			}
		}
	})
}

// given calls a function with nothing in its arguments but contexts.
func given(t *testing.T, name string, fn reflect.Value, ctx context.Context, body pawl.Context) {
	t.Helper()
	in := make([]reflect.Value, fn.Type().NumIn())
	wantsContext := false
	for i := range in {
		switch of := fn.Type().In(i); {
		case of == reflect.TypeFor[context.Context]() && ctx != nil:
			in[i] = reflect.ValueOf(ctx)
		case of == reflect.TypeFor[context.Context]():
			in[i], wantsContext = reflect.Zero(of), true
		case of == reflect.TypeFor[pawl.Context]() && body != nil:
			in[i] = reflect.ValueOf(body)
		case fn.Type().IsVariadic() && i == len(in)-1:
			in[i] = reflect.MakeSlice(of, 1, 1)
		default:
			in[i] = reflect.Zero(of)
		}
	}
	defer func() {
		t.Helper()
		switch v := recover().(type) {
		case nil:
		case runtime.Error:
			t.Errorf("%s: a fault of the runtime: %v", name, v)
		default:
			if text := fmt.Sprint(v); !strings.HasPrefix(text, "pawl") {
				t.Errorf("%s panicked with %s", name, text)
			}
		}
	}()
	call := fn.Call
	if fn.Type().IsVariadic() {
		call = fn.CallSlice
	}
	out := call(in)
	if !wantsContext || len(out) == 0 || name == "pawl.NonRetryable" || strings.HasPrefix(name, "pawl.JSON.") {
		return
	}
	if err, ok := out[len(out)-1].Interface().(error); ok && !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("%s without a context: %v", name, err)
	}
}

// exportedOf returns the functions of a package that programs can call, and its types with methods that they can call.
func exportedOf(t *testing.T, dir string) (functions, types []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no package in %s: %v", dir, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok || !fn.Name.IsExported():
			case fn.Recv == nil:
				functions = append(functions, file.Name.Name+"."+fn.Name.Name)
			case ast.IsExported(receiver(fn.Recv.List[0].Type)):
				types = append(types, file.Name.Name+"."+receiver(fn.Recv.List[0].Type))
			}
		}
	}
	return functions, slices.Compact(slices.Sorted(slices.Values(types)))
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}
