package temporal

import (
	"context"
	"maps"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/temporal/visibility"
)

// operator serves what operators ask for.
type operator struct {
	operatorservice.UnimplementedOperatorServiceServer
	*Frontend
}

// ListSearchAttributes lists the attributes that queries may name.
func (o operator) ListSearchAttributes(
	context.Context, *operatorservice.ListSearchAttributesRequest,
) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{
		SystemAttributes: visibility.System(), CustomAttributes: visibility.Custom(),
	}, nil
}

// GetSearchAttributes lists the attributes that queries may name.
func (s *Frontend) GetSearchAttributes(
	context.Context, *workflowservice.GetSearchAttributesRequest,
) (*workflowservice.GetSearchAttributesResponse, error) {
	keys := visibility.System()
	maps.Copy(keys, visibility.Custom())
	return &workflowservice.GetSearchAttributesResponse{Keys: keys}, nil
}
