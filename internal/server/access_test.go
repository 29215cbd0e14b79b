package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/worker"
)

// guarded is a bed whose server asks for tokens, with one token of each role.
type guarded struct {
	*bed
	keeper *access.Keeper
	tokens map[string]api.Token // the tokens by role
}

func newGuarded(t *testing.T, with ...func(*Config)) *guarded {
	t.Helper()
	j := memory.New()
	g := &guarded{tokens: map[string]api.Token{}}
	now := func() api.Time { return api.At(time.Now()) }
	g.keeper = access.NewKeeper(journal.Journal(j).(journal.Documents), now, nil)
	t.Cleanup(func() {
		if err := g.keeper.Close(); err != nil {
			t.Error(err)
		}
	})
	g.bed = newBedOn(t, j, append(with, func(c *Config) { c.Access, c.Guarded = g.keeper, true })...)
	for _, role := range api.Roles() {
		r := api.TokenRequest{Name: "my " + role, Role: role, ExpiresIn: api.Duration(24 * time.Hour)}
		if role == api.RoleWorker {
			r.Queues = []string{"mail"}
		}
		var err error
		if g.tokens[role], err = g.keeper.CreateToken(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// as sends a request with the token of a role.
func (g *guarded) as(role, method, path, body string) (int, http.Header, string) {
	g.Helper()
	return g.plain(method, path, body, "Content-Type", "application/json", "Authorization",
		"Bearer "+g.tokens[role].Token)
}

// allows says what each role may do.
var allows = map[string]map[string]bool{
	Anyone: {
		api.RoleRead: true, api.RoleApprove: true, api.RoleOperate: true, api.RoleAdmin: true, api.RoleWorker: true,
	},
	api.RoleRead:    {api.RoleRead: true, api.RoleApprove: true, api.RoleOperate: true, api.RoleAdmin: true},
	api.RoleApprove: {api.RoleApprove: true, api.RoleOperate: true, api.RoleAdmin: true},
	api.RoleOperate: {api.RoleOperate: true, api.RoleAdmin: true},
	api.RoleAdmin:   {api.RoleAdmin: true},
	api.RoleWorker:  {api.RoleWorker: true, api.RoleAdmin: true},
}

// TestEveryEndpointAsksForItsRole checks that each endpoint of the description has a role, and no token of another one
// gets in. Nobody gets in without a token.
func TestEveryEndpointAsksForItsRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		var described struct {
			Paths map[string]map[string]json.RawMessage
		}
		_, _, text := g.plain("GET", "/openapi.json", "")
		if err := json.Unmarshal([]byte(text), &described); err != nil || len(described.Paths) < 40 {
			t.Fatalf("%d paths, %v", len(described.Paths), err)
		}
		for path, operations := range described.Paths {
			for method := range operations {
				pattern := strings.ToUpper(method) + " " + path
				asked := g.server.roles[pattern]
				if asked == "" {
					t.Errorf("no role is stated for %s", pattern)
					continue
				}
				g.tryEndpoint(strings.ToUpper(method), path, asked)
			}
		}
	})
}

// tryEndpoint uses an endpoint without a token and with the token of each role. The bodies cannot be read, so nothing
// happens where a caller gets in.
func (g *guarded) tryEndpoint(method, path, asked string) {
	g.Helper()
	concrete := strings.NewReplacer("{run}", "nobody", "{attempt}", "1", "{operation}", "pause").Replace(path)
	for _, part := range []string{
		"{step}", "{definition}", "{webhook}", "{delivery}", "{task}", "{token}",
		"{schedule}",
	} {
		concrete = strings.ReplaceAll(concrete, part, "x")
	}
	body := "{"
	if method == http.MethodGet {
		body = ""
	}
	what := method + " " + path
	for _, header := range []string{"", "Bearer", "Bearer x", "Basic eDp5", "Bearer pawl_0_0"} {
		status, h, text := g.plain(method, concrete, body, "Authorization", header)
		if asked == Anyone {
			if status != http.StatusOK {
				g.Errorf("%s without a token: %d %s", what, status, text)
			}
			continue
		}
		g.problem(what, status, h, text, http.StatusUnauthorized, api.CodeNoToken)
		if h.Get("Www-Authenticate") == "" {
			g.Errorf("%s: the answer does not say what to show: %v", what, h)
		}
	}
	for role := range g.tokens {
		if path == "/api/v1/events" && allows[asked][role] {
			continue // a stream without an end
		}
		status, h, text := g.as(role, method, concrete, body)
		if !allows[asked][role] {
			g.problem(what+" as "+role, status, h, text, http.StatusForbidden, api.CodeForbidden, role, asked)
		} else if status == http.StatusUnauthorized || status == http.StatusForbidden || status >= 500 {
			g.Errorf("%s as %s: %d %s", what, role, status, text)
		}
	}
}

// TestQueuesOfAWorker checks that a worker takes tasks of its queues alone.
func TestQueuesOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		status, h, body := g.as(api.RoleWorker, "POST", "/api/v1/tasks/poll", `{"queue":"other","worker":"w"}`)
		g.problem("another queue", status, h, body, http.StatusForbidden, api.CodeForbidden, "mail", "other")
		own := `{"queue":"mail","worker":"w"}`
		if status, _, body = g.as(api.RoleWorker, "POST", "/api/v1/tasks/poll", own); status != 200 {
			t.Errorf("its own queue: %d %s", status, body)
		}
	})
}

// TestWorkerWhoseTokenIsRevoked checks that a worker ends when its token does not count any more: asking again would
// not help.
func TestWorkerWhoseTokenIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		if err := g.client.Show(g.tokens[api.RoleWorker].Token, nil); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			ended <- remote.NewWorker(remote.WorkerConfig{
				Tasks: g.client, Queue: "mail", Slots: 1, Executors: map[string]worker.Executor{"Send": nil},
			}).Run(t.Context())
		}()
		pass(time.Hour)
		select {
		case err := <-ended:
			t.Fatalf("before: %v", err)
		default:
		}
		from := time.Now()
		if err := g.keeper.RevokeToken(t.Context(), "my worker"); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		if took := time.Since(from); !errors.Is(err, api.Sentinel(api.CodeNoToken)) || took > time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// TestTokensEnd checks that a token counts until it expires or is revoked, and only for a caller with its secret
// part.
func TestTokensEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		if err := g.keeper.RevokeToken(t.Context(), "my read"); err != nil {
			t.Fatal(err)
		}
		status, h, body := g.as(api.RoleRead, "GET", "/api/v1/runs", "")
		g.problem("revoked", status, h, body, http.StatusUnauthorized, api.CodeNoToken, "not known")
		<-time.After(24*time.Hour - time.Second)
		if status, _, body := g.as(api.RoleOperate, "GET", "/api/v1/runs", ""); status != 200 {
			t.Errorf("a second before it expires: %d %s", status, body)
		}
		<-time.After(time.Second)
		status, h, body = g.as(api.RoleOperate, "GET", "/api/v1/runs", "")
		g.problem("expired", status, h, body, http.StatusUnauthorized, api.CodeNoToken, "my operate", "expired")
		found, err := g.journal.(journal.Documents).FindDocuments(t.Context(), "", "~", false, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			for _, token := range g.tokens {
				secret := strings.SplitN(token.Token, "_", 3)[2]
				if strings.Contains(string(d.Value), secret) {
					t.Errorf("%s has the token itself: %s", d.Key, d.Value)
				}
			}
		}
	})
}

// TestWhoDidIt checks that the history of the run and the audit log show the requests of a token under its name, the
// refused ones too.
func TestWhoDidIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		start := `{"workflow":"order","workflowId":"o1"}`
		if status, _, body := g.as(api.RoleOperate, "POST", "/api/v1/runs", start); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		<-time.After(time.Second)
		pause := `{"actor":"root"}`
		if status, _, body := g.as(api.RoleOperate, "POST", "/api/v1/runs/o1/pause", pause); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		<-time.After(time.Second)
		g.as(api.RoleRead, "POST", "/api/v1/runs/o1/cancel", `{}`)
		r, err := g.embedded.Run(t.Context(), "o1")
		if err != nil || len(r.Operations) != 1 || r.Operations[0].Actor != "my operate (root)" {
			t.Errorf("%+v, %v", r.Operations, err)
		}
		synctest.Wait()
		status, _, text := g.as(api.RoleAdmin, "GET", "/api/v1/audit?limit=2", "")
		var page api.AuditPage
		if err := json.Unmarshal([]byte(text), &page); status != 200 || err != nil || len(page.Entries) != 2 {
			t.Fatalf("%d %s, %v", status, text, err)
		}
		refused, paused := page.Entries[0], page.Entries[1]
		if refused.Actor != "my read" || refused.Status != 403 || paused.Actor != "my operate" ||
			paused.Path != "/api/v1/runs/o1/pause" ||
			paused.Token != g.tokens[api.RoleOperate].ID || paused.Request == "" {
			t.Errorf("%+v", page.Entries)
		}
		_, _, text = g.as(api.RoleAdmin, "GET", "/api/v1/audit?cursor="+page.Next, "")
		var rest api.AuditPage
		if err := json.Unmarshal([]byte(text), &rest); err != nil || len(rest.Entries) != 1 || rest.Next != "" ||
			rest.Entries[0].Path != "/api/v1/runs" || rest.Entries[0].Status != http.StatusCreated {
			t.Errorf("%s, %v", text, err)
		}
		status, h, body := g.as(api.RoleAdmin, "GET", "/api/v1/audit?cursor=Li4vLi4", "")
		g.problem("a forged cursor", status, h, body, http.StatusBadRequest, api.CodeInvalid, "not a cursor")
	})
}

// TestWhoDecides checks that a token decides what its name may, whatever it says of itself: not who has started the
// run, and not somebody whom the flow does not name. The role approve sends events and does nothing else.
func TestWhoDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		start := `{"workflowId":"pay","flow":"pawl: 1\nname: pay\nsteps:\n  - {name: ok, wait: {event: approved, ` +
			`by: [my approve, my admin], notBy: starter}}\n"}`
		if status, _, body := g.as(api.RoleAdmin, "POST", "/api/v1/runs", start); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		<-time.After(time.Second)
		const events, said = "/api/v1/runs/pay/events", `{"name":"approved","actor":"my approve"}`
		for role, why := range map[string]string{
			api.RoleOperate: "my approve or my admin decides this, not my operate",
			api.RoleAdmin:   "my admin has started the run",
			api.RoleRead:    "approve",
		} {
			status, h, body := g.as(role, "POST", events, said)
			g.problem(role, status, h, body, http.StatusForbidden, api.CodeForbidden, why)
		}
		skip := "/api/v1/runs/pay/steps/ok/skip"
		status, h, body := g.as(api.RoleOperate, "POST", skip, `{}`)
		g.problem("skip", status, h, body, http.StatusForbidden, api.CodeForbidden, "not my operate")
		for _, path := range []string{"/api/v1/runs", "/api/v1/runs/pay/pause"} {
			if status, _, body := g.as(api.RoleApprove, "POST", path, `{}`); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if status, _, body := g.as(api.RoleApprove, "POST", events, said); status != http.StatusNoContent {
			t.Errorf("who may: %d %s", status, body)
		}
	})
}

// TestFlowsOfCallers checks that only an admin brings flows along: their steps execute commands as the server.
func TestFlowsOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		given, err := json.Marshal(map[string]any{"definition": definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{`{"flow":"pawl: 1\nname: x\nsteps: [{name: a, noop: {}}]"}`, string(given)} {
			status, h, text := g.as(api.RoleOperate, "POST", "/api/v1/runs", body)
			g.problem("operate", status, h, text, http.StatusForbidden, api.CodeForbidden, "execute commands")
			if status, _, text = g.as(api.RoleAdmin, "POST", "/api/v1/runs", body); status != http.StatusCreated {
				t.Errorf("admin: %d %s", status, text)
			}
		}
	})
}

// TestSchedulesOfCallers checks that a schedule brings no flow that its caller may not start, neither when it is made
// nor by an event that changes it. One that names a flow which is stored, or a Go program's workflow, brings none.
func TestSchedulesOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.as(api.RoleAdmin, "POST", "/api/v1/runs", `{"workflow":"order","workflowId":"o1"}`)
		target := func(kind, source string) *schedule.Target {
			return &schedule.Target{
				Workflow: "order", Kind: kind, Definition: schedule.ID(definition(orderFlow).ID), Source: source,
			}
		}
		for _, c := range []struct {
			target  *schedule.Target
			refused bool
		}{
			{target(journal.KindFlow, orderFlow), true},
			{target("", orderFlow), true},
			{target(journal.KindFlow, ""), false},
			{target(journal.KindGo, "{}"), false},
		} {
			state := schedule.State{Name: "nightly", Spec: schedule.Spec{Cron: "@daily"}, Target: *c.target}
			input, err := state.Encode()
			if err != nil {
				t.Fatal(err)
			}
			made, err := json.Marshal(map[string]any{"input": json.RawMessage(input), "definition": api.Definition{
				ID: schedule.DefinitionID(), Kind: schedule.Kind, Name: schedule.Workflow, Source: schedule.Source,
			}})
			if err != nil {
				t.Fatal(err)
			}
			changed, err := json.Marshal(map[string]any{
				"name": schedule.Event, "keep": true,
				"payload": schedule.Change{Op: schedule.OpUpdate, Target: c.target},
			})
			if err != nil {
				t.Fatal(err)
			}
			for path, body := range map[string][]byte{
				"/api/v1/runs": made, "/api/v1/runs/o1/events": changed,
			} {
				status, h, text := g.as(api.RoleOperate, "POST", path, string(body))
				if c.refused {
					g.problem("operate", status, h, text, http.StatusForbidden, api.CodeForbidden, "execute commands")
				} else if status == http.StatusForbidden {
					t.Errorf("%s of %+v: %s", path, c.target, text)
				}
				if status, _, text = g.as(api.RoleAdmin, "POST", path, string(body)); status == http.StatusForbidden {
					t.Errorf("admin: %s", text)
				}
			}
		}
	})
}

// TestLimitsOfAToken checks that a token that asks for too much is told so, and that others go on.
func TestLimitsOfAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, func(c *Config) { c.Limits = Limits{Rate: 10, Waits: 1} })
		refused := 0
		for range 40 {
			status, h, body := g.as(api.RoleRead, "GET", "/api/v1/stats", "")
			if status != 200 {
				refused++
				g.problem("too often", status, h, body, http.StatusTooManyRequests, api.CodeLimited, "10 requests")
			}
		}
		if refused != 40-21 { // those of two seconds, saved up, and one more
			t.Errorf("%d of 40 requests were refused", refused)
		}
		if status, _, body := g.as(api.RoleOperate, "GET", "/api/v1/stats", ""); status != 200 {
			t.Errorf("another token: %d %s", status, body)
		}
		<-time.After(time.Minute)
		poll := `{"queue":"mail","worker":"w","wait":"30s"}`
		polled := make(chan int)
		go func() {
			status, _, _ := g.as(api.RoleWorker, "POST", "/api/v1/tasks/poll", poll)
			polled <- status
		}()
		synctest.Wait()
		status, h, body := g.as(api.RoleWorker, "POST", "/api/v1/tasks/poll", poll)
		g.problem("a second poll", status, h, body, http.StatusTooManyRequests, api.CodeLimited, "1 streams")
		if status := <-polled; status != 200 {
			t.Errorf("the first poll: %d", status)
		}
		g.server.SetLimits(Limits{})
		for range 100 {
			if status, _, body := g.as(api.RoleRead, "GET", "/api/v1/stats", ""); status != 200 {
				t.Fatalf("without limits: %d %s", status, body)
			}
		}
	})
}

// TestWaitsAreCounted checks that every request that may stay open for minutes counts as a wait.
func TestWaitsAreCounted(t *testing.T) {
	ctx := context.WithValue(t.Context(), callerKey{}, &caller{token: api.Token{ID: "t"}})
	for target, want := range map[string]struct {
		pattern string
		most    int
	}{
		"/api/v1/runs/r?wait=1m":         {"GET /api/v1/runs/{run}", 1},
		"/api/v1/runs/r":                 {"GET /api/v1/runs/{run}", 3},
		"/api/v1/runs/r/updates?wait=5m": {"POST /api/v1/runs/{run}/updates", 1},
		"/api/v1/runs/r/outcome?wait=5m": {"GET /api/v1/runs/{run}/outcome", 1},
	} {
		u, taken := newUsage(Limits{Waits: 1}), 0
		for range 3 {
			if _, p := u.begin(httptest.NewRequestWithContext(ctx, "GET", target, nil), want.pattern); p == nil {
				taken++
			}
		}
		if taken != want.most {
			t.Errorf("%d of 3 requests for %s are taken at once", taken, target)
		}
	}
}

// TestClientShowsAToken checks that the client shows its token, and not to another machine without encryption.
func TestClientShowsAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		_, err := g.client.Runs(t.Context(), api.Query{})
		if !errors.Is(err, api.Sentinel(api.CodeNoToken)) {
			t.Errorf("without a token: %v", err)
		}
		if err := g.client.Show(g.tokens[api.RoleAdmin].Token, nil); err != nil {
			t.Fatal(err)
		}
		made, err := g.client.CreateToken(t.Context(), api.TokenRequest{Name: "ci", Role: api.RoleRead})
		if err != nil || made.Token == "" {
			t.Fatalf("%+v, %v", made, err)
		}
		_, err = g.client.CreateToken(t.Context(), api.TokenRequest{Name: "ci", Role: api.RoleRead})
		if !errors.Is(err, api.Sentinel(api.CodeConflict)) {
			t.Errorf("the same name: %v", err)
		}
		_, err = g.client.CreateToken(t.Context(), api.TokenRequest{Name: "x", Role: "king"})
		if !errors.Is(err, api.Sentinel(api.CodeInvalid)) || !strings.Contains(err.Error(), "operate") {
			t.Errorf("an unknown role: %v", err)
		}
		all, err := g.client.Tokens(t.Context())
		if err != nil || len(all) != len(api.Roles())+1 || all[0].Name != "ci" || all[0].Token != "" {
			t.Errorf("%+v, %v", all, err)
		}
		if err := g.client.RevokeToken(t.Context(), made.ID); err != nil {
			t.Error(err)
		}
		if err := g.client.RevokeToken(t.Context(), "ci"); !errors.Is(err, api.Sentinel(api.CodeNotFound)) {
			t.Errorf("a second time: %v", err)
		}
		synctest.Wait() // the log is written after the answer
		page, err := g.client.Audit(t.Context(), api.AuditQuery{Actor: "my admin", Limit: 10})
		if err != nil || len(page.Entries) == 0 {
			t.Errorf("%+v, %v", page, err)
		}
	})
	c, err := httpapi.New("http://pawl.example:7295")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Show("pawl_x_y", nil); !errors.Is(err, api.Sentinel(api.CodeInvalid)) {
		t.Errorf("a token in clear text: %v", err)
	}
}
