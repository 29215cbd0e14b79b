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

// Opener opens a journal. name is the part after the scheme in "scheme:name".
type Opener func(ctx context.Context, name string) (Journal, error)

// opening is how the journals of a scheme are opened.
type opening struct{ toWork, toRead Opener }

var openers = struct {
	sync.RWMutex
	byScheme map[string]opening
}{byScheme: map[string]opening{}}

// Register makes Open and OpenReadOnly use these openers for a scheme. toRead opens a journal for reading only, also
// while another process holds it; nil: there is nothing to read. A journal's package calls Register from init, like
// drivers of database/sql. It panics if the scheme has an opener already.
func Register(scheme string, toWork, toRead Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.byScheme[scheme].toWork != nil {
		panic(fmt.Sprintf("journal: scheme %q is registered twice", scheme))
	}
	openers.byScheme[scheme] = opening{toWork, toRead}
}

// SplitPartitions splits the part after the scheme of an address, such as "shop.db?partitions=4", into the name and the
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
	how, name, err := openingOf(address)
	if err != nil {
		return nil, err
	}
	return how.toWork(ctx, name)
}

// OpenReadOnly opens the journal of an address for reading, also while another process holds it. It creates nothing.
func OpenReadOnly(ctx context.Context, address string) (Journal, error) {
	how, name, err := openingOf(address)
	if err != nil {
		return nil, err
	}
	if how.toRead == nil {
		return nil, fmt.Errorf("journal: database %q cannot be read from outside: it ends with its program", address)
	}
	return how.toRead(ctx, name)
}

// openingOf returns the opener for an address, and the part after the scheme.
func openingOf(address string) (how opening, name string, err error) {
	scheme, name, found := strings.Cut(address, ":")
	if !found {
		return opening{}, "", fmt.Errorf(
			"journal: database %q has no scheme: write it like sqlite:shop.db or memory:", address)
	}
	openers.RLock()
	defer openers.RUnlock()
	how = openers.byScheme[scheme]
	if how.toWork == nil {
		return opening{}, "", fmt.Errorf(
			"journal: no journal for %q is linked (known: %s): import _ \"github.com/pawl-dev/pawl/journal/%s\"",
			scheme, strings.Join(slices.Sorted(maps.Keys(openers.byScheme)), ", "), scheme)
	}
	return how, name, nil
}
