package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/minutes"
	"github.com/pawl-dev/pawl/policy"
)

// Queues returns what waits for workers, what limits hold back, and who works. In a cluster each node reports its own.
func (d *Daemon) Queues(ctx context.Context) (api.QueueReport, error) {
	stats := d.engine.Stats()
	out := api.QueueReport{
		At: api.Time(d.now()), Queued: stats.Queued, Running: stats.Live, Loaded: stats.Loaded,
		SetAside: stats.SetAside, Late: api.Duration(stats.Late), Queues: []api.TaskQueue{},
		Services: []api.ServiceUse{}, Limits: []api.LimitUse{}, Workers: []api.WorkerSeen{},
	}
	queues, err := d.engine.Queues(ctx)
	if err != nil {
		return out, err
	}
	lately := d.minutes.Queues()
	for _, q := range queues {
		out.Queues = append(out.Queues, d.taskQueue(q, lately[minutes.TaskType{Queue: q.Queue, Type: q.Type}]))
	}
	slices.SortStableFunc(out.Queues, func(a, b api.TaskQueue) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.PerMinute, a.PerMinute))
	})
	for _, s := range d.minutes.Services() {
		out.Services = append(out.Services, api.ServiceUse{
			Service: s.Name, Attempts: s.Attempts, Retries: s.Retries, PerMinute: s.PerMinute, Parts: s.Parts,
			All: s.All,
		})
	}
	slices.SortStableFunc(out.Services, func(a, b api.ServiceUse) int { return cmp.Compare(b.Retries, a.Retries) })
	held := d.minutes.Held()
	for _, u := range d.engine.Uses(d.now()) {
		use := limitUse(&u)
		if !u.Runs {
			use.Held = held[u.Resource]
		}
		out.Limits = append(out.Limits, use)
	}
	if d.queues != nil {
		out.Workers = d.queues.Workers()
	}
	return out, nil
}

func (d *Daemon) taskQueue(q engine.QueueStats, lately minutes.QueueRecent) api.TaskQueue {
	out := api.TaskQueue{
		Queue: q.Queue, Type: q.Type, Waiting: q.Waiting, Running: q.Running, PerMinute: lately.PerMinute,
		WaitP50: api.Duration(lately.P50), WaitP95: api.Duration(lately.P95),
	}
	if q.Free >= 0 {
		out.Free = &q.Free
	}
	if len(q.Waits) > 0 {
		oldest := slices.MinFunc(q.Waits, func(a, b engine.Wait) int { return cmp.Compare(a.Since, b.Since) })
		out.Oldest, out.OldestRun = api.Time(oldest.Since), oldest.Run.String()
		out.Unserved = d.hasNoWorker(q.Queue, q.Type) || q.Free == 0 && q.Running == 0
	}
	return out
}

// limitUse says how much of its limits something has used up.
func limitUse(u *limit.Use) api.LimitUse {
	out := api.LimitUse{
		Kind: api.LimitedQueue, Name: u.Name, Waiting: u.Waiting, Running: u.Running, Uses: []api.UseOf{},
	}
	switch {
	case u.Service:
		out.Kind = api.LimitedService
	case u.Runs:
		out.Kind = api.LimitedRuns
	}
	count := func(limit string, most, used int) {
		if most > 0 {
			out.Uses = append(out.Uses, api.UseOf{Limit: limit, Most: most, Used: used})
		}
	}
	rate := func(limit string, r policy.Rate, used int) {
		if r.N > 0 {
			out.Uses = append(out.Uses, api.UseOf{Limit: limit, Most: r.N, Per: api.Duration(r.Per), Used: used})
		}
	}
	count("concurrency", u.Limits.Concurrency, u.Running)
	rate("rate", u.Limits.Rate, u.Started)
	rate("retries", u.Limits.Retries, u.Retried)
	count("per_key", u.Limits.PerKey, 0)
	rate("key_rate", u.Limits.KeyRate, 0)
	if rule := u.Limits.Breaker; rule.Failures > 0 {
		b := u.Breaker
		out.Breaker = &api.BreakerSeen{
			Open: b.Open, Failed: b.Failed, Opens: rule.Failures, Of: rule.Window(), Probe: api.Time(b.Until),
			Probing: b.Probing, Probes: b.Probes,
		}
	}
	out.Says = saysUse(&out)
	return out
}

// counted writes a number with the words for one and for others.
func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// saysUse says how something with limits stands.
func saysUse(u *api.LimitUse) api.Saying {
	one, many := "attempt waits", "attempts wait"
	if u.Kind == api.LimitedRuns {
		one, many = "run waits", "runs wait"
	}
	var parts []api.Part
	add := func(p api.Part) { parts = append(parts, p) }
	switch b := u.Breaker; {
	case b != nil && b.Open && b.Probing:
		add(api.Part{Text: "Its breaker is open, and a probe is on its way"})
	case b != nil && b.Open:
		add(api.Part{Text: "Its breaker is open; the next probe goes "})
		add(api.Part{Text: "at " + b.Probe.String(), At: b.Probe, Form: api.FormIn})
	case u.Waiting > 0:
		add(api.Part{Text: "Its limits are used up"})
	default:
		add(api.Part{Text: "It has room"})
	}
	if u.Breaker != nil && u.Breaker.Open && u.Breaker.Probes > 0 {
		add(api.Part{Text: "; " + counted(u.Breaker.Probes, "probe has failed", "probes have failed")})
	}
	if u.Waiting > 0 {
		add(api.Part{Text: "; " + counted(u.Waiting, one, many)})
	}
	add(api.Part{Text: "."})
	out := api.Saying{Parts: parts}
	for _, p := range parts {
		out.Text += p.Text
	}
	return out
}
