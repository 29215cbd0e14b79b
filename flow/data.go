package flow

import "github.com/pawl-dev/pawl/internal/tree"

type (
	// Value is a piece of a document that may be any data, in whose strings expressions may stand. The zero Value is
	// absent, which is not the same as null. [V] makes one.
	Value = tree.Value

	// Pos is a place in a document: line and column in characters, both from 1. The zero Pos is no place, as in a
	// document built in code.
	Pos = tree.Pos

	// Error is one thing that is wrong with a document: where it stands, what is wrong, and what to do about it.
	Error = tree.Error

	// Errors are all errors of one document, in the order of their places.
	Errors = tree.Errors
)

// V makes a Value from Go data: nil, booleans, numbers, strings, durations, lists, maps with string keys, other Values.
// It panics with other types, as a mistake in the program.
func V(v any) Value { return tree.V(v) }
