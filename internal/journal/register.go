package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Opener opens a journal; name is what follows the scheme in "scheme:name".
type Opener func(ctx context.Context, name string) (Journal, error)

var openers = struct {
	sync.RWMutex
	byScheme map[string]Opener
}{byScheme: map[string]Opener{}}

// Register lets Open find a journal by its scheme. A journal's package calls it when it is initialised, as drivers of
// database/sql do. It panics where the scheme is taken.
func Register(scheme string, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.byScheme[scheme] != nil {
		panic(fmt.Sprintf("journal: scheme %q is registered twice", scheme))
	}
	openers.byScheme[scheme] = open
}

// Open opens the journal of an address such as "sqlite:shop.db" or "memory:".
func Open(ctx context.Context, address string) (Journal, error) {
	scheme, name, found := strings.Cut(address, ":")
	if !found {
		return nil, fmt.Errorf("journal: database %q has no scheme: write it like sqlite:shop.db or memory:", address)
	}
	openers.RLock()
	open := openers.byScheme[scheme]
	known := slices.Sorted(maps.Keys(openers.byScheme))
	openers.RUnlock()
	if open == nil {
		return nil, fmt.Errorf("journal: no journal for %q is linked (known: %s): import _ \"github.com/pawl-dev/pawl/journal/%s\"",
			scheme, strings.Join(known, ", "), scheme)
	}
	return open(ctx, name)
}
