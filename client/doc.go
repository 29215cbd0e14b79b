// Package client has what callers of an engine say and are told: the requests of a pawl.Client and its answers, the
// phases of runs and steps, and what explains a run. pawl.Engine implements the client.
package client
