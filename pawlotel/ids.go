package pawlotel

import "github.com/pawl-dev/pawl/internal/traces"

// IDs is an IDGenerator of the trace SDK. It gives the span of a run an id that follows from the run's own id, so that
// spans of the run's attempts, which end long before it and perhaps in other processes, can name it as their parent.
// All other ids are random. Its zero value is ready for use: give a pointer to one to sdktrace.WithIDGenerator and to
// [Config].IDs.
type IDs struct{ traces.IDs }
