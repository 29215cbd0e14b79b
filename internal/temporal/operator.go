package temporal

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
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
		SystemAttributes: visibility.System(), CustomAttributes: map[string]enumspb.IndexedValueType{},
	}, nil
}

// GetSearchAttributes lists the attributes that queries may name.
func (s *Frontend) GetSearchAttributes(
	context.Context, *workflowservice.GetSearchAttributesRequest,
) (*workflowservice.GetSearchAttributesResponse, error) {
	return &workflowservice.GetSearchAttributesResponse{Keys: visibility.System()}, nil
}
