package main

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
)

// allOver reports whether there is nothing more to follow: the runs and their children have ended. A child that its
// parent has abandoned is not waited for.
func (f *follower) allOver() bool {
	if !f.rootsOver() {
		return false
	}
	for id := range f.watched {
		r := f.runs[id]
		if !f.over[id] && (r == nil || r.ParentClose != "abandon") {
			return false
		}
	}
	return true
}

func (f *follower) rootsOver() bool {
	return !slices.ContainsFunc(f.roots, func(id string) bool { return !f.over[id] })
}

// notBegun reports whether an update shows that a child does not exist. Its parent names it when the attempt starts; in
// another partition the child begins a moment later, so it is watched again. A child that still does not exist after
// its parents have ended was refused, and is no longer expected.
func (f *follower) notBegun(u update) bool {
	if !errors.Is(u.err, api.Sentinel(api.CodeNotFound)) || f.runs[u.run] != nil || slices.Contains(f.roots, u.run) {
		return false
	}
	delete(f.watched, u.run)
	if !f.lastAsked[u.run] {
		f.expected[u.run] = true
	}
	return true
}

// watchExpected watches the expected children again. It reports whether there were any.
func (f *follower) watchExpected(ctx context.Context) bool {
	found := len(f.expected) > 0
	for id := range f.expected {
		delete(f.expected, id)
		f.watch(ctx, id)
	}
	return found
}

// forget drops a run that has ended, with its children.
func (f *follower) forget(id string) {
	if !f.over[id] {
		return
	}
	f.roots = slices.DeleteFunc(f.roots, func(root string) bool { return root == id })
	delete(f.runs, id)
	delete(f.watched, id)
	delete(f.over, id)
	for child, r := range f.runs {
		if r.Parent == id {
			f.forget(child)
		}
	}
}
