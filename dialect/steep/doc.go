// Package steep translates workflows of the Steep workflow management system into flows.
//
// An execute action becomes a step that runs the service's program. What an action reads orders it after what writes
// it; the names of the files between them are generated. A for action becomes a loop, whose actions run independently
// in each iteration. Where the workflow retries process chains, each chain becomes a child flow whose runs are retried.
// Macros are expanded.
//
//	conversion, err := steep.Convert(steep.Sources{Workflow: …, Services: …})
package steep
