package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/catalog"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// agreeable does whatever a server of one process alone does not do, and of a clock that goes by itself.
type agreeable struct{}

func (agreeable) Clock(context.Context) (o api.ClockState, _ error) { return o, nil }

func (agreeable) MoveClock(context.Context, api.ClockMove) (o api.ClockState, _ error) { return o, nil }

func (agreeable) Cluster(context.Context) (o api.ClusterStatus, _ error) { return o, nil }

func (agreeable) Drain(context.Context, api.NodeDrain) error { return nil }

func (agreeable) Move(context.Context, api.PartitionMove) error { return nil }

func (agreeable) AddStore(context.Context, api.StoreAdd) error { return nil }

func (agreeable) RemoveStore(context.Context, api.StoreRemove) error { return nil }

func (agreeable) MoveToStore(context.Context, api.StoreMove) error { return nil }

func (agreeable) Prune(context.Context, api.PruneRequest) (o api.Pruned, _ error) { return o, nil }

func (agreeable) Update(context.Context, string, api.Update) (o api.Answer, _ error) { return o, nil }

func (agreeable) Log(context.Context, string, api.LogPlace) (o api.LogPart, _ error) { return o, nil }

func (agreeable) Artifacts(context.Context, string) (o api.Artifacts, _ error) { return o, nil }

func (agreeable) Artifact(context.Context, string, string) (io.ReadCloser, api.Artifact, error) {
	return io.NopCloser(strings.NewReader("content")), api.Artifact{Path: "dist/a.txt", Size: 7}, nil
}

func (agreeable) Keep(context.Context, string, []api.AttemptFile) (o []string, _ error) {
	return o, nil
}

func (agreeable) Receive(_ context.Context, _ string, size int64, r io.Reader) error {
	if text, err := io.ReadAll(r); string(text) != "content" || size != 7 || err != nil {
		return &api.Error{Code: api.CodeInvalid, Message: "it is another content"}
	}
	return nil
}

func (agreeable) Content(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("content")), nil
}

func (agreeable) JoinBodies(context.Context, api.BodiesJoin) error { return nil }

func (agreeable) TakeNews(context.Context, api.NewsRequest) (o api.News, _ error) { return o, nil }

func (agreeable) GiveDecisions(context.Context, api.Decisions) (o api.DecisionAnswers, _ error) {
	return o, nil
}

func (agreeable) BodiesNodes(context.Context, api.BodiesNodesRequest) (o api.BodiesNodes, _ error) {
	return o, nil
}

// reach is a bed whose client calls every endpoint.
type reach struct {
	*bed
	routes *requests
}

func newReach(t *testing.T) *reach {
	t.Helper()
	j := memory.New()
	documents := journal.Journal(j).(journal.Documents)
	now := func() api.Time { return api.At(time.Now()) }
	keeper := access.NewKeeper(documents, now, nil)
	t.Cleanup(func() {
		if err := keeper.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &reach{routes: &requests{}}
	r.bed = newBedOn(t, j, func(c *Config) {
		c.Access, c.Metrics, c.Clock, c.Cluster = keeper, r.routes, agreeable{}, agreeable{}
		c.Pruner, c.Updates, c.Logs, c.Bodies = agreeable{}, agreeable{}, agreeable{}, agreeable{}
		c.Artifacts = agreeable{}
		c.QueueReport = func(context.Context) (api.QueueReport, error) { return api.QueueReport{Queued: 7}, nil }
		c.Catalog = catalog.New(documents, func(api.Definition) error { return nil }, now)
		c.Carry = func(context.Context, string, bool) error { return nil }
	})
	r.withWebhooks()
	return r
}

// must fails the test if a call has failed.
func (r *reach) must(what string, err error) {
	r.Helper()
	if err != nil {
		r.Errorf("%s: %v", what, err)
	}
}

// start starts a run of the order flow, and waits until it waits.
func (r *reach) start() string {
	r.Helper()
	st, err := r.client.Start(r.Context(), api.StartRequest{Definition: definition(orderFlow)})
	r.must("start", err)
	<-time.After(time.Second)
	return st.Run
}

// runs calls what is about runs.
func (r *reach) runs() {
	r.Helper()
	ctx, c := r.Context(), r.client
	run := r.start()
	_, err := c.Run(ctx, run)
	r.must("run", err)
	_, err = c.Runs(ctx, api.Query{})
	r.must("runs", err)
	_, err = c.Counts(ctx, api.Query{})
	r.must("counts", err)
	_, err = c.Stats(ctx)
	r.must("stats", err)
	_, err = c.Attention(ctx)
	r.must("attention", err)
	_, err = c.Overview(ctx, time.Hour)
	r.must("overview", err)
	queues, err := httpapi.Queues(ctx, c)
	if r.must("queues", err); queues.Queued != 7 {
		r.Errorf("the queues are %+v", queues)
	}
	r.raw("GET", "/api/v1/runs/"+run+"/items?of=first&order=worst", "")
	_, err = c.History(ctx, run)
	r.must("history", err)
	_, err = c.Forecast(ctx, run, api.ForecastRequest{})
	r.must("forecast", err)
	_, err = c.RunAt(ctx, run, 1)
	r.must("at", err)
	r.raw("GET", "/api/v1/runs/"+run+"/diff?with="+run, "")
	_, err = c.Definition(ctx, definition(orderFlow).ID)
	r.must("definition", err)
	_, err = c.Update(ctx, run, api.Update{Name: "u"})
	r.must("update", err)
	_, err = c.Artifacts(ctx, run)
	r.must("artifacts", err)
	content, _, err := c.Artifact(ctx, run, strings.Repeat("ab", 32))
	r.must("an artifact", err)
	if text, err := io.ReadAll(content); string(text) != "content" || err != nil {
		r.Errorf("an artifact is %q, %v", text, err)
	}
	r.must("close", content.Close())
	_, err = c.Log(ctx, run, api.LogPlace{Step: "first", Attempt: 1})
	r.must("log", err)
	r.must("carry", c.Carry(ctx, run, false))
	r.must("send", c.Send(ctx, run, api.SendRequest{Name: "other", Keep: true}))
	r.must("ready", c.Ready(ctx))
	r.operate(run)
	_, err = c.Wait(ctx, run)
	r.must("wait", err)
	_, err = c.Restart(ctx, run, api.RestartRequest{})
	r.must("restart", err)
	enough := errors.New("enough")
	if err := c.Watch(ctx, run, 0, func(api.Event) error { return enough }); !errors.Is(err, enough) {
		r.Errorf("watch: %v", err)
	}
	if err := c.Changes(ctx, api.Query{}, "", func(api.Change) error { return enough }); !errors.Is(err, enough) {
		r.Errorf("changes: %v", err)
	}
}

// operate does everything to a run and its steps that one can do.
func (r *reach) operate(run string) {
	r.Helper()
	pol := policy.Policy{}
	if err := json.Unmarshal([]byte(`{"retry":"fixed(9, 1h)"}`), &pol); err != nil {
		r.Fatal(err)
	}
	failure := &policy.Failure{Kind: policy.KindFailed, Message: "by hand"}
	for _, op := range []api.Operation{
		{Operation: api.OpPause},
		{Operation: api.OpResume},
		{Operation: api.OpExtend, By: api.Extension(time.Hour)},
		{Operation: api.OpExtend, Step: "approval", By: api.Extension(time.Hour)},
		{Operation: api.OpSetPolicy, Step: "broken", Policy: &pol},
		{Operation: api.OpNow, Step: "broken"},
		{Operation: api.OpSkip, Step: "broken"},
		{Operation: api.OpComplete, Step: "approval"},
		{Operation: api.OpFail, Step: "nap", Failure: failure},
		{Operation: api.OpRetryRun},
		{Operation: api.OpFail, Step: "nap", Failure: failure},
		{Operation: api.OpRetryStep, Step: "nap"},
		{Operation: api.OpTerminate},
	} {
		r.must(op.Operation+" "+op.Step, r.client.Operate(r.Context(), run, op))
		<-time.After(time.Second)
	}
	for _, kind := range []string{api.OpCancelGracefully, api.OpCancel} {
		r.must(kind, r.client.Operate(r.Context(), r.start(), api.Operation{Operation: kind}))
	}
}

// server calls what is about the server, its tokens, flows, policies, and the processes that serve workflows.
func (r *reach) server() {
	r.Helper()
	ctx, c := r.Context(), r.client
	const holder = "0123456789abcdef"
	token, err := c.CreateToken(ctx, api.TokenRequest{Name: "ada", Role: api.RoleRead})
	r.must("create a token", err)
	_, err = c.Tokens(ctx)
	r.must("tokens", err)
	r.must("revoke", c.RevokeToken(ctx, token.ID))
	_, err = c.Audit(ctx, api.AuditQuery{Limit: 1})
	r.must("audit", err)
	_, err = c.Apply(ctx, api.ApplyRequest{Definition: definition(orderFlow)})
	r.must("apply", err)
	_, err = c.Flows(ctx)
	r.must("flows", err)
	_, err = c.Versions(ctx, "order")
	r.must("versions", err)
	_, err = c.Flow(ctx, "order", 1)
	r.must("flow", err)
	pol := api.PolicyRequest{Policy: json.RawMessage(`{"retry":"fixed(2, 1s)"}`)}
	_, err = c.ExplainPolicy(ctx, pol)
	r.must("explain", err)
	_, err = c.SimulatePolicy(ctx, pol)
	r.must("simulate", err)
	_, err = c.LintPolicy(ctx, pol)
	r.must("lint", err)
	_, err = c.Clock(ctx)
	r.must("clock", err)
	_, err = c.MoveClock(ctx, api.ClockMove{By: api.Duration(time.Hour)})
	r.must("move the clock", err)
	_, err = c.Cluster(ctx)
	r.must("cluster", err)
	r.must("drain", c.Drain(ctx, api.NodeDrain{Node: "a"}))
	r.must("move", c.Move(ctx, api.PartitionMove{Partition: 1, Node: "a"}))
	r.must("add a store", c.AddStore(ctx, api.StoreAdd{Name: "b", Address: "postgres://b"}))
	r.must("move to a store", c.MoveToStore(ctx, api.StoreMove{Partition: 1, Store: "b"}))
	r.must("remove a store", c.RemoveStore(ctx, api.StoreRemove{Name: "b"}))
	_, err = c.Prune(ctx, api.PruneRequest{OlderThan: api.Duration(time.Hour)})
	r.must("prune", err)
	r.must("join", c.JoinBodies(ctx, api.BodiesJoin{
		Holder: holder, Name: "h", Slots: 1, Workflows: []string{"w"}, Options: []byte{1},
	}))
	_, err = c.BodiesNodes(ctx, api.BodiesNodesRequest{})
	r.must("nodes", err)
	_, err = c.TakeNews(ctx, api.NewsRequest{Holder: holder})
	r.must("news", err)
	_, err = c.GiveDecisions(ctx, api.Decisions{Holder: holder, Number: 1, Decisions: []byte{1}})
	r.must("decisions", err)
}

// webhooks calls what is about webhooks.
func (r *reach) webhooks() {
	r.Helper()
	ctx, c := r.Context(), r.client
	_, err := c.AddWebhook(ctx, api.WebhookRequest{Name: "ops", URL: "https://example.com/x", Events: []string{"*"}})
	r.must("add a webhook", err)
	r.start()
	_, err = c.Webhooks(ctx)
	r.must("webhooks", err)
	_, err = c.Webhook(ctx, "ops")
	r.must("webhook", err)
	_, err = c.ChangeWebhook(ctx, "ops", api.WebhookChange{URL: "https://example.com/y"})
	r.must("change a webhook", err)
	_, err = c.RotateSecret(ctx, "ops", api.Rotation{})
	r.must("rotate", err)
	_, err = c.TestWebhook(ctx, "ops")
	r.must("test", err)
	page, err := c.Deliveries(ctx, "ops", api.DeliveryQuery{})
	if err != nil || len(page.Deliveries) == 0 {
		r.Fatalf("%+v, %v", page, err)
	}
	_, err = c.Delivery(ctx, "ops", page.Deliveries[0].ID)
	r.must("delivery", err)
	_, err = c.Replay(ctx, "ops", api.ReplayRequest{Failed: true})
	r.must("replay", err)
	r.must("remove a webhook", c.RemoveWebhook(ctx, "ops"))
}

// tasks calls what is about tasks. Reports on one task are for workers that are no Go programs: the client sends all
// of them at once.
func (r *reach) tasks() {
	r.Helper()
	ctx, c := r.Context(), r.client
	take := func() (task, run string) {
		r.Helper()
		st, err := c.Start(ctx, api.StartRequest{Definition: definition(crimsonFlow)})
		r.must("start", err)
		tasks, err := c.Poll(ctx, api.PollRequest{Queue: "mail", Worker: "w", Wait: api.Duration(10 * time.Second)})
		if err != nil || len(tasks) != 1 {
			r.Fatalf("%+v, %v", tasks, err)
		}
		return tasks[0].Task, st.Run
	}
	task, _ := take()
	_, err := c.Report(ctx, []api.TaskReport{{Task: task, Kind: api.TaskHeartbeat}})
	r.must("report", err)
	r.files(task)
	for _, kind := range []string{"start", "heartbeat", "complete"} {
		r.raw("POST", "/api/v1/tasks/"+task+"/"+kind, `{}`)
	}
	task, _ = take()
	r.raw("POST", "/api/v1/tasks/"+task+"/fail", `{"kind":"failed","message":"no"}`)
	task, run := take()
	r.must("interrupt", c.Operate(ctx, run, api.Operation{Operation: api.OpCancel}))
	r.raw("POST", "/api/v1/tasks/"+task+"/stopped", `{}`)
}

// files calls what is about the files of a task's attempt.
func (r *reach) files(task string) {
	r.Helper()
	ctx, c, sum := r.Context(), httpapi.Files{Client: r.client}, strings.Repeat("ab", 32)
	missing, err := c.KeepFiles(ctx, task, []api.AttemptFile{{Path: "dist/a.txt", Size: 7, SHA256: sum}})
	if len(missing) > 0 {
		r.Errorf("missing are %v", missing)
	}
	r.must("keep", err)
	r.must("send", c.SendContent(ctx, task, sum, 7, strings.NewReader("content")))
	if err := c.SendContent(ctx, task, sum, 5, strings.NewReader("other")); api.CodeOf(err) != api.CodeInvalid {
		r.Errorf("another content: %v", err)
	}
	content, err := c.Content(ctx, task, sum)
	r.must("content", err)
	if text, err := io.ReadAll(content); string(text) != "content" || err != nil {
		r.Errorf("the content is %q, %v", text, err)
	}
	r.must("close", content.Close())
}

// raw calls what the client has no method for.
func (r *reach) raw(method, path, body string) {
	r.Helper()
	if status, _, text := r.plain(method, path, body); status >= 300 {
		r.Errorf("%s %s: %d %s", method, path, status, text)
	}
}

// TestEveryEndpointIsCalled checks that every endpoint of the description is called, by the client where it has a
// method, and accepts the call. Those of schedules, which only Go programs have, are called in cmd/pawl, with a
// program that serves some.
func TestEveryEndpointIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReach(t)
		r.runs()
		r.server()
		r.webhooks()
		r.tasks()
		r.raw("POST", "/api/v1/bulk/pause", `{"query":{"workflow":"order"},"dryRun":true}`)
		r.raw("POST", "/api/v1/flows/validate", `{"text":"pawl: 1"}`)
		for _, path := range []string{
			"/api/v1/schedules", "/api/v1/firings?from=2026-01-02T00:00:00.000Z", "/api/v1/caller",
			"/api/v1/histogram", "/api/v1/suggest", "/livez", "/version",
		} {
			r.raw("GET", path, "")
		}
		var of described
		_, _, text := r.plain("GET", "/openapi.json", "")
		if err := json.Unmarshal([]byte(text), &of); err != nil || len(of.Paths) < 40 {
			t.Fatalf("%d paths, %v", len(of.Paths), err)
		}
		synctest.Wait() // an answer may be read before it is counted
		r.routes.mu.Lock()
		defer r.routes.mu.Unlock()
		counted := strings.Join(r.routes.all, "\n")
		for path, operations := range of.Paths {
			for method := range operations {
				taken := strings.ToUpper(method) + ` "` + path + `" 2`
				if !strings.Contains(counted, taken) && !strings.HasPrefix(path, "/api/v1/schedules/{schedule}") {
					t.Errorf("nobody has called %s %s and was answered well", strings.ToUpper(method), path)
				}
			}
		}
	})
}
