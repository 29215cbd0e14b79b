package temporal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // the SDKs compress their requests
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// maxMessage bounds a request.
	maxMessage = 16 << 20
	// maxPayload bounds what a caller gives a run at once, and what a worker answers.
	maxPayload = 2 << 20
	// maxStreams bounds the requests of one connection that are answered at once; others wait. Workers poll a lot.
	maxStreams = 10_000
	// pingsFrom is how often a client may ask whether the connection lives: the SDKs do so each 30 s, also while they
	// wait for nothing.
	pingsFrom = 10 * time.Second
	// deadAfter is how long a connection is silent before the server asks whether its client lives, and deadWithin how
	// long the answer may take. The polls of a client that has gone take tasks otherwise.
	deadAfter  = time.Minute
	deadWithin = 10 * time.Second
)

// ProtocolConfig configures a protocol. Its zero value serves everybody.
type ProtocolConfig struct {
	Log   *slog.Logger // nil: nothing is logged
	Guard *Guard       // nil: no caller is asked for a token
}

// Protocol serves Temporal's protocol over the runs of gateways, one for each namespace.
type Protocol struct {
	cfg  ProtocolConfig
	grpc *grpc.Server

	mu      sync.RWMutex
	fronts  map[string]*Frontend // those of all namespaces, by name
	refused map[string]bool      // methods that were asked for and are not supported
}

// NewProtocol serves some gateways, whose engines are open. The first one answers requests that are about no
// namespace.
func NewProtocol(cfg ProtocolConfig, first *Gateway, others ...*Gateway) *Protocol {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Protocol{cfg: cfg, fronts: map[string]*Frontend{}, refused: map[string]bool{}}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.UnaryInterceptor(s.answer),
		grpc.UnknownServiceHandler(s.unknown),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsFrom, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: deadAfter, Timeout: deadWithin}),
	)
	own := s.Add(first)
	for _, g := range others {
		s.Add(g)
	}
	workflowservice.RegisterWorkflowServiceServer(s.grpc, own)
	operatorservice.RegisterOperatorServiceServer(s.grpc, operator{Frontend: own})
	healthpb.RegisterHealthServer(s.grpc, health{of: first})
	return s
}

// Add serves the namespace of a gateway, too. Its engine is open.
func (s *Protocol) Add(g *Gateway) *Frontend {
	f := g.Frontend()
	f.server = s
	f.methods = methodsOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fronts[g.cfg.Namespace] = f
	return f
}

// front returns what answers in a namespace; nil: there is no such one.
func (s *Protocol) front(namespace string) *Frontend {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fronts[namespace]
}

// namespaces returns what answers in the namespaces that a caller may use, by their names.
func (s *Protocol) namespaces(ctx context.Context) []*Frontend {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*Frontend
	for name, f := range s.fronts {
		if callerOf(ctx).enters(name) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *Frontend) int { return cmp.Compare(a.cfg.Namespace, b.cfg.Namespace) })
	return out
}

// Serve answers what comes to a listener, until Shutdown or Close.
func (s *Protocol) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Shutdown answers the requests at hand until ctx ends.
func (s *Protocol) Shutdown(ctx context.Context) error {
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
func (s *Protocol) Close() error {
	s.grpc.Stop()
	return nil
}

// methods are the methods of a service by their full names.
type methods map[string]grpc.UnaryHandler

// methodsOf returns the methods of the services of a namespace. Those that gRPC calls are of the first namespace.
func methodsOf(f *Frontend) methods {
	out := methods{}
	add := func(desc *grpc.ServiceDesc, of any) {
		v := reflect.ValueOf(of)
		for _, m := range desc.Methods {
			call := v.MethodByName(m.MethodName)
			out["/"+desc.ServiceName+"/"+m.MethodName] = func(ctx context.Context, req any) (any, error) {
				answer := call.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(req)})
				err, _ := answer[1].Interface().(error)
				return answer[0].Interface(), err
			}
		}
	}
	add(&workflowservice.WorkflowService_ServiceDesc, f)
	add(&operatorservice.OperatorService_ServiceDesc, operator{Frontend: f})
	return out
}

// answer checks what all requests have, and gives errors the form of the protocol.
func (s *Protocol) answer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Log.Error("a request of Temporal's protocol panicked", "id", "temporal-panic",
				"method", info.FullMethod, "error", v)
			resp, err = nil, status.Error(codes.Internal, "the request panicked")
		}
	}()
	if isLocal(ctx) { // compression costs more than the bytes do
		if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(info.FullMethod, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return handler(ctx, req)
	}
	resp, err = s.within(ctx, req, info.FullMethod)
	if err == nil {
		return resp, nil
	}
	if status.Code(err) == codes.Unimplemented {
		s.tellRefused(info.FullMethod)
	}
	return nil, serviceerror.ToStatus(plain(err)).Err()
}

// within answers a request in its namespace, if its caller may.
func (s *Protocol) within(ctx context.Context, req any, method string) (any, error) {
	namespace, named := namespaceOf(req)
	if namespace == "" {
		namespace = Namespace
	}
	ctx, end, err := s.cfg.Guard.admit(ctx, asked{method, namespace, req})
	if err != nil {
		return nil, err
	}
	if !named {
		end(serviceerror.NewInvalidArgument("Namespace not set on request."))
		return nil, serviceerror.NewInvalidArgument("Namespace not set on request.")
	}
	f := s.front(namespace)
	if f == nil {
		err := serviceerror.NewNamespaceNotFound(namespace)
		end(err)
		return nil, err
	}
	resp, err := f.methods[method](ctx, req)
	if cause := context.Cause(ctx); err != nil && ctx.Err() != nil && cause != ctx.Err() {
		err = cause // the caller's token was revoked meanwhile
	}
	end(err)
	return resp, err
}

// isLocal reports whether a caller is on this machine.
func isLocal(ctx context.Context) bool {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return true
	}
	tcp, is := p.Addr.(*net.TCPAddr)
	return !is || tcp.IP.IsLoopback()
}

// namespaceOf returns the namespace that a request is about; empty: it is about none. It reports false if it has to
// name one. Who shows a token need not, and a namespace that is described may be named by its id.
func namespaceOf(req any) (name string, named bool) {
	switch q := req.(type) {
	case *workflowservice.DescribeNamespaceRequest:
		return q.Namespace, true
	case *workflowservice.RegisterNamespaceRequest:
		return "", true // there is none of that name
	}
	msg, ok := req.(proto.Message)
	if !ok {
		return "", true
	}
	in := msg.ProtoReflect()
	fields := in.Descriptor().Fields()
	field := fields.ByName("namespace")
	if field == nil {
		return "", true
	}
	name = in.Get(field).String()
	operators := strings.HasPrefix(string(in.Descriptor().FullName()), "temporal.api.operatorservice.")
	return name, name != "" || operators || fields.ByName("task_token") != nil
}

// unknown answers a service that is not served.
func (s *Protocol) unknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	s.tellRefused(method)
	return status.Errorf(codes.Unimplemented, "method %s not implemented", method[strings.LastIndex(method, "/")+1:])
}

// tellRefused logs once that somebody asks for a method that is not supported.
func (s *Protocol) tellRefused(method string) {
	const most = 1000 // names are made up by callers
	s.mu.Lock()
	known := s.refused[method] || len(s.refused) >= most
	s.refused[method] = true
	s.mu.Unlock()
	if !known {
		s.cfg.Log.Warn("a method of Temporal's protocol is not supported", "method", method)
	}
}
