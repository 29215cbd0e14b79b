package temporal

import "go.temporal.io/api/workflowservice/v1"

// Namespace is the name of the namespace of a server that has no other.
const Namespace = "default"

// Frontend answers the requests of one namespace.
type Frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	*Gateway

	server  *Protocol
	methods methods
}

// Frontend returns what answers requests. Call it once the gateway's engine is open.
func (g *Gateway) Frontend() *Frontend { return &Frontend{Gateway: g} }
