// Package client has the requests that a pawl.Client takes and the answers that it returns: the phases of runs and
// steps, and what explains a run. pawl.Engine implements the client.
package client
