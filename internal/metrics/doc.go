// Package metrics counts what an engine and its server do, for Prometheus.
//
// Times are in seconds. No label holds the id of a run, the name of a step or a path that a caller chose: the number of
// time series follows from the workflows, services and queues that there are, and not from how much they are used.
package metrics
