package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Opener opens a journal. name is what follows the scheme in "scheme:name".
type Opener func(ctx context.Context, name string) (Journal, error)

var openers = struct {
	sync.RWMutex
	byScheme map[string]Opener
}{byScheme: map[string]Opener{}}

// Register makes Open use an opener for a scheme. A journal's package calls it from init, like drivers of database/sql.
// It panics if the scheme has an opener already.
func Register(scheme string, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.byScheme[scheme] != nil {
		panic(fmt.Sprintf("journal: scheme %q is registered twice", scheme))
	}
	openers.byScheme[scheme] = open
}

// SplitPartitions splits what follows the scheme of an address, such as "shop.db?partitions=4", into the name and the
// number of partitions. 0: the address has no number.
func SplitPartitions(address string) (name string, partitions int, err error) {
	name, query, found := strings.Cut(address, "?partitions=")
	if !found {
		return address, 0, nil
	}
	partitions, err = strconv.Atoi(query)
	if err != nil || partitions < 1 || partitions > MostPartitions {
		return "", 0, fmt.Errorf(
			"journal: database %q: the number of partitions is %q, not a number from 1 to %d", address, query,
			MostPartitions)
	}
	return name, partitions, nil
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
		return nil, fmt.Errorf(
			"journal: no journal for %q is linked (known: %s): import _ \"github.com/pawl-dev/pawl/journal/%s\"",
			scheme, strings.Join(known, ", "), scheme)
	}
	return open(ctx, name)
}
