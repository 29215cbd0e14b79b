package temporal

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/api"
)

// plain returns an error of the engine as one of the protocol.
func plain(err error) error {
	var own serviceerror.ServiceError
	if errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch api.CodeOf(err) {
	case api.CodeInvalid:
		return serviceerror.NewInvalidArgument(err.Error())
	case api.CodeNotFound, api.CodeRunClosed, api.CodeStale:
		return serviceerror.NewNotFound(err.Error())
	case api.CodeTooLarge, api.CodeFull, api.CodeLimited:
		return serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, err.Error())
	case api.CodeCancelled:
		return serviceerror.NewCanceled(err.Error())
	case api.CodeConflict:
		return serviceerror.NewFailedPrecondition(err.Error())
	case api.CodeForbidden:
		return serviceerror.NewPermissionDenied(err.Error(), "")
	case api.CodeNoToken:
		return status.Error(codes.Unauthenticated, err.Error())
	default: // the caller tries again
		return serviceerror.NewUnavailable(err.Error())
	}
}

// absent reports whether an error of the engine says that there is no such run.
func absent(err error) bool { return api.CodeOf(err) == api.CodeNotFound }

// isNotFound reports whether an error of the protocol says that there is no such run.
func isNotFound(err error) bool {
	var none *serviceerror.NotFound
	return errors.As(err, &none)
}
