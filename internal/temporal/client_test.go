package temporal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// frontend is a workflow service that implements only starts, and answers everything else with Unimplemented.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	start func(*startRequest) (*startResponse, error)
}

func (f *frontend) StartWorkflowExecution(_ context.Context, r *startRequest) (*startResponse, error) {
	return f.start(r)
}

// realService is the service of Temporal's own client, connected to a frontend over the wire.
func realService(t testing.TB,
	start func(*startRequest) (*startResponse, error)) workflowservice.WorkflowServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, &frontend{start: start})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return clientOf(t, listener.Addr().String(), nil).WorkflowService()
}

func clientOf(t testing.TB, address string, config *tls.Config) client.Client {
	t.Helper()
	temporal, err := client.NewLazyClient(client.Options{
		HostPort:          address,
		ConnectionOptions: client.ConnectionOptions{TLS: config, GrpcCompression: &client.GrpcCompressionNone{}},
		Logger:            temporallog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	return temporal
}

// The client converts gRPC errors to its own types, some of them in internal packages.
func TestClassifyKnowsWhatTheRealClientMakesOfAnAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code codes.Code
		want engine.Outcome
	}{
		{codes.OK, engine.Started},
		{codes.InvalidArgument, engine.Permanent},
		{codes.FailedPrecondition, engine.Permanent},
		{codes.OutOfRange, engine.Permanent},
		{codes.NotFound, engine.Blocked},
		{codes.PermissionDenied, engine.Blocked},
		{codes.Unauthenticated, engine.Blocked},
		{codes.Unimplemented, engine.Blocked},
		{codes.Unavailable, engine.Unanswered},
		{codes.ResourceExhausted, engine.Throttled},
		{codes.DeadlineExceeded, engine.Unanswered},
		{codes.Canceled, engine.Unanswered},
		{codes.Internal, engine.Unanswered},
		{codes.Aborted, engine.Unanswered},
		{codes.DataLoss, engine.Unanswered},
		{codes.Unknown, engine.Unanswered},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			t.Parallel()
			service := realService(t, func(*startRequest) (*startResponse, error) {
				return &startResponse{RunId: "run"}, status.Error(c.code, "as the server says")
			})
			_, err := (&Client{Service: service, Namespace: "default"}).Start(t.Context(), anItem())
			require.Equal(t, c.want.String(), Classify(err).String(), "%T %v", err, err)
		})
	}
}

func TestMessageThatIsTooLargeForTheServerIsPermanent(t *testing.T) {
	t.Parallel()
	service := realService(t, func(*startRequest) (*startResponse, error) { return &startResponse{}, nil })
	// 5 MiB, which gRPC rejects before sending. Start must not send it.
	_, err := service.StartWorkflowExecution(t.Context(), &startRequest{Identity: strings.Repeat("x", 5<<20)})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, engine.Permanent.String(), Classify(err).String(), "%T %v", err, err)
}

func TestRequestThatCannotBeMarshalledIsPermanent(t *testing.T) {
	t.Parallel()
	service := realService(t, func(*startRequest) (*startResponse, error) { return &startResponse{}, nil })
	item := anItem()
	item.TaskQueue = "orders\xff"
	_, err := (&Client{Service: service, Namespace: "default"}).Start(t.Context(), item)
	require.Equal(t, engine.Permanent.String(), Classify(err).String(), "%T %v", err, err)
}

func TestServerThatIsNotThereIsUnreached(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	service := clientOf(t, listener.Addr().String(), nil).WorkflowService()
	_, err = (&Client{Service: service, Namespace: "default"}).Start(t.Context(), anItem())
	require.Equal(t, engine.Unreached.String(), Classify(err).String(), "%T %v", err, err)
}

// The error names the certificate's fault, and no attempt is counted.
func TestCertificateThatIsRefusedIsUnreachedAndSaysSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	known := x509.NewCertPool()
	known.AddCert(server.Certificate())
	for says, config := range map[string]*tls.Config{
		"certificate signed by unknown authority": {},
		"certificate is valid for":                {RootCAs: known, ServerName: "temporal.internal"},
		"certificate has expired": {RootCAs: known, Time: func() time.Time {
			return time.Now().AddDate(100, 0, 0)
		}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			service := clientOf(t, server.Listener.Addr().String(), config).WorkflowService()
			_, err := (&Client{Service: service, Namespace: "default"}).Start(t.Context(), anItem())
			require.ErrorContains(t, err, says)
			require.Equal(t, engine.Unreached.String(), Classify(err).String(), "%T %v", err, err)
		})
	}
}

func TestRequestThatWasSentAndLostIsUnanswered(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, &frontend{start: func(*startRequest) (*startResponse, error) {
		close(arrived)
		<-t.Context().Done()
		return nil, t.Context().Err()
	}})
	go func() { _ = server.Serve(listener) }()
	service := clientOf(t, listener.Addr().String(), nil).WorkflowService()
	go func() {
		<-arrived
		go server.Stop() // waits for the handler, which waits for the test
	}()
	_, err = (&Client{Service: service, Namespace: "default"}).Start(t.Context(), anItem())
	require.Equal(t, engine.Unanswered.String(), Classify(err).String(), "%T %v", err, err)

	_, err = (&Client{Service: service, Namespace: "default"}).Start(t.Context(), anItem())
	require.Equal(t, engine.Unreached.String(), Classify(err).String(), "the server is gone: %T %v", err, err)
}
