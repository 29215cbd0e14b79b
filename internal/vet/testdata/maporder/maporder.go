package maporder

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/pawl-dev/pawl"
)

type in struct {
	names []string
	sums  map[string]int
}

func nothing(context.Context) error { return nil }

func body(ctx pawl.Context, m map[string]int) ([]string, error) {
	var undo pawl.Compensations
	charge := func(name string) error { return pawl.Do(ctx, name, nothing) }
	for name := range m { // want `this loop over it makes durable calls \(pawl.Do\): loop over the sorted keys, slices.Sorted\(maps.Keys\(m\)\)`
		if err := pawl.Do(ctx, name, nothing); err != nil {
			return nil, err
		}
	}
	for name := range maps.Keys(m) { // want `makes durable calls \(maporder.part\)`
		part(ctx, name)
	}
	for name := range m { // want `makes durable calls`
		_ = charge(name)
	}
	for name := range m { // want `makes durable calls \(pawl.Compensations.Add\)`
		undo.Add(ctx, name, nothing)
	}
	var names []string
	for name := range m { // want `this loop over it appends to names: loop over the sorted keys`
		names = append(names, name)
	}
	return names, undo.Run(ctx)
}

func part(ctx pawl.Context, name string) {}

func fine(ctx pawl.Context, v in) (int, error) {
	sum := 0
	for name, n := range v.sums {
		sum += n
		pawl.Logger(ctx).Info("a sum", "name", name, "at", pawl.Now(ctx))
	}
	var keys []string
	for name := range v.sums {
		keys = append(keys, name)
	}
	sort.Strings(keys)
	for name := range v.sums {
		v.names = append(v.names, name)
	}
	slices.SortFunc(v.names, func(a, b string) int { return len(a) - len(b) })
	lists := map[int][]string{}
	for name, n := range v.sums {
		lists[n] = append(lists[n], name)
		var own []string
		own = append(own, name)
		_ = own
	}
	for _, name := range slices.Sorted(maps.Keys(v.sums)) {
		if err := pawl.Do(ctx, name, nothing); err != nil {
			return 0, err
		}
	}
	return pawl.Step(ctx, "count", func(context.Context) (int, error) {
		var all []string
		for name := range v.sums {
			all = append(all, name)
		}
		return len(all), nil
	})
}
