package temporal

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // the SDKs compress their requests
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/api"
)

const (
	// Namespace is the only one.
	Namespace = "default"
	// maxMessage bounds a request.
	maxMessage = 16 << 20
	// maxPayload bounds what a caller gives a run at once, and what a worker answers.
	maxPayload = 2 << 20
	// maxStreams bounds the requests of one connection that are answered at once; others wait. Workers poll a lot.
	maxStreams = 10_000
)

// Frontend serves Temporal's protocol over the runs of a gateway.
type Frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	*Gateway

	grpc *grpc.Server

	mu      sync.Mutex
	refused map[string]bool // methods that were asked for and are not supported
}

// Frontend returns what serves the protocol. Call it once the gateway's engine is open.
func (g *Gateway) Frontend() *Frontend {
	s := &Frontend{Gateway: g, refused: map[string]bool{}}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.UnaryInterceptor(s.answer),
		grpc.UnknownServiceHandler(s.unknown),
	)
	workflowservice.RegisterWorkflowServiceServer(s.grpc, s)
	operatorservice.RegisterOperatorServiceServer(s.grpc, operator{Frontend: s})
	healthpb.RegisterHealthServer(s.grpc, health{of: g})
	return s
}

// Serve answers what comes to a listener, until Shutdown or Close.
func (s *Frontend) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Shutdown answers the requests at hand until ctx ends.
func (s *Frontend) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
	return nil
}

// Close cuts all connections.
func (s *Frontend) Close() error {
	s.grpc.Stop()
	return nil
}

// answer checks what all requests have, and gives errors the form of the protocol.
func (s *Frontend) answer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a request of Temporal's protocol panicked", "id", "temporal-panic",
				"method", info.FullMethod, "error", v)
			resp, err = nil, status.Error(codes.Internal, "the request panicked")
		}
	}()
	if err := checkNamespace(req); err != nil {
		return nil, serviceerror.ToStatus(err).Err()
	}
	if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil { // the caller is on this machine
		return nil, err
	}
	resp, err = handler(ctx, req)
	if err == nil {
		return resp, nil
	}
	if status.Code(err) == codes.Unimplemented {
		s.tellRefused(info.FullMethod)
	}
	return nil, serviceerror.ToStatus(plain(err)).Err()
}

// checkNamespace refuses a request that is about a namespace which is not served, or about none. Who shows a token need
// not name one.
func checkNamespace(req any) error {
	switch req.(type) {
	case *workflowservice.DescribeNamespaceRequest, *workflowservice.RegisterNamespaceRequest:
		return nil // they say so themselves
	}
	msg, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	in := msg.ProtoReflect()
	field := in.Descriptor().Fields().ByName("namespace")
	if field == nil {
		return nil
	}
	switch name := in.Get(field).String(); {
	case name == Namespace, name == "" && in.Descriptor().Fields().ByName("task_token") != nil:
		return nil
	case name == "":
		return serviceerror.NewInvalidArgument("Namespace not set on request.")
	default:
		return serviceerror.NewNamespaceNotFound(name)
	}
}

// unknown answers a service that is not served.
func (s *Frontend) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	s.tellRefused(method)
	return status.Errorf(codes.Unimplemented, "method %s not implemented", method[strings.LastIndex(method, "/")+1:])
}

// tellRefused logs once that somebody asks for a method that is not supported.
func (s *Frontend) tellRefused(method string) {
	const most = 1000 // names are made up by callers
	s.mu.Lock()
	known := s.refused[method] || len(s.refused) >= most
	s.refused[method] = true
	s.mu.Unlock()
	if !known {
		s.log.Warn("a method of Temporal's protocol is not supported", "method", method)
	}
}

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
