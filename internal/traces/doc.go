// Package traces has the ids of OpenTelemetry's spans of runs and attempts. They follow from the run and the attempt,
// so that spans which end long before their parent, and perhaps in other processes, can name it.
package traces
