package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

// mostSeen bounds what a node tells: some bytes for each partition.
const mostSeen = 4 << 20

// Seen asks other nodes, also those that the table calls dead, what they have seen of the database. Those that do not
// answer, or do not know the question, say nothing.
func (n *Nodes) Seen(ctx context.Context, own string, nodes []cluster.Node) (all []journal.Seen) {
	ctx, cancel := context.WithTimeout(ctx, hintWithin)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, node := range nodes {
		if node.ID == own {
			continue
		}
		asked.Go(func() {
			seen, err := n.seenBy(ctx, node)
			if err != nil {
				n.log.Debug("a node does not tell what it has seen of the database", "node", node.ID, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, seen)
		})
	}
	asked.Wait()
	return all
}

func (n *Nodes) seenBy(ctx context.Context, node cluster.Node) (seen journal.Seen, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+node.Address+seenPath, http.NoBody)
	if err != nil {
		return seen, err
	}
	res, err := n.RoundTrip(r)
	if err != nil {
		return seen, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return seen, fmt.Errorf("it answers with %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, mostSeen+1))
	if err == nil && len(text) > mostSeen {
		err = errors.New("it tells too much")
	}
	if err == nil {
		seen, err = journal.DecodeSeen(text)
	}
	return seen, err
}
