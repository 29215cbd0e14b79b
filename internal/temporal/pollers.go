package temporal

import (
	"cmp"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// pollerFor is how long a worker is shown after its last poll.
	pollerFor = 5 * time.Minute
	// mostPollers bounds how many are known: callers choose the names of queues and their own.
	mostPollers = 10_000
)

// pollers are the workers that have asked for tasks lately.
type pollers struct {
	mu   sync.Mutex
	seen map[poller]polled
}

// poller is a worker as somebody who asks a queue.
type poller struct {
	queue    string
	kind     enumspb.TaskQueueType
	identity string
}

// polled is what is known of the last poll of a worker.
type polled struct {
	at   time.Time
	rate float64 // tasks a second that the worker asks for at most; 0: it does not say
}

// ask notes that a worker asks for tasks.
func (p *pollers) ask(who poller, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if _, known := p.seen[who]; !known && len(p.seen) >= mostPollers {
		for other, last := range p.seen {
			if now.Sub(last.at) > pollerFor {
				delete(p.seen, other)
			}
		}
		if len(p.seen) >= mostPollers {
			return
		}
	}
	p.seen[who] = polled{now, rate}
}

// leave forgets a worker that stops, on all its queues.
func (p *pollers) leave(identity string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for who := range p.seen {
		if who.identity == identity {
			delete(p.seen, who)
		}
	}
}

// of returns the workers of a queue, the one that asked last in front.
func (p *pollers) of(queue string, kind enumspb.TaskQueueType) []*taskqueuepb.PollerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*taskqueuepb.PollerInfo
	for who, last := range p.seen {
		if who.queue != queue || who.kind != kind || time.Since(last.at) > pollerFor {
			continue
		}
		out = append(out, &taskqueuepb.PollerInfo{
			Identity: who.identity, LastAccessTime: timestamppb.New(last.at), RatePerSecond: last.rate,
		})
	}
	slices.SortFunc(out, func(a, b *taskqueuepb.PollerInfo) int {
		return cmp.Or(b.LastAccessTime.AsTime().Compare(a.LastAccessTime.AsTime()), cmp.Compare(a.Identity, b.Identity))
	})
	return out
}
