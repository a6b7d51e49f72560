package temporal

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/pgdispatch/pgdispatch/internal/must"
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
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, &frontend{start: start})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return clientOf(t, listener.Addr().String(), nil).WorkflowService()
}

func clientOf(t testing.TB, address string, config *tls.Config) client.Client {
	t.Helper()
	temporal := must.Get(client.NewLazyClient(client.Options{
		HostPort:          address,
		ConnectionOptions: client.ConnectionOptions{TLS: config, GrpcCompression: &client.GrpcCompressionNone{}},
		Logger:            temporallog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})).In(t)
	t.Cleanup(temporal.Close)
	return temporal
}

// The client converts gRPC errors to its own types, some of them in internal packages.
func TestClassifyKnowsWhatTheRealClientMakesOfAnAnswer(t *testing.T) {
	t.Parallel()
	for outcome, all := range map[engine.Outcome][]codes.Code{
		engine.Started:   {codes.OK},
		engine.Permanent: {codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange},
		engine.Blocked:   {codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented},
		engine.Throttled: {codes.ResourceExhausted},
		engine.Unanswered: {codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Aborted,
			codes.DataLoss, codes.Unknown},
	} {
		for _, code := range all {
			t.Run(code.String(), func(t *testing.T) {
				t.Parallel()
				service := realService(t, func(*startRequest) (*startResponse, error) {
					return &startResponse{RunId: "run"}, status.Error(code, "as the server says")
				})
				_ = requireStart(t, service, anItem(), outcome)
			})
		}
	}
}

// requireStart starts an item, and requires this outcome.
func requireStart(t *testing.T, service Service, item Start, want engine.Outcome) error {
	t.Helper()
	_, err := (&Client{Service: service, Namespace: "default"}).Start(t.Context(), item)
	require.Equal(t, want.String(), Classify(err).String(), "%T %v", err, err)
	return err
}

func TestMessageThatIsTooLargeForTheServerIsPermanent(t *testing.T) {
	t.Parallel()
	service := realService(t, func(*startRequest) (*startResponse, error) { return &startResponse{}, nil })
	// 5 MiB, which gRPC rejects before sending. Start must not send it.
	_, err := service.StartWorkflowExecution(t.Context(), &startRequest{Identity: strings.Repeat("x", 5<<20)})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, engine.Permanent.String(), Classify(err).String(), "%T %v", err, err)
}

func TestWhatCannotBeMarshalledIsPermanentAndAServerThatIsNotThereUnreached(t *testing.T) {
	t.Parallel()
	service := realService(t, func(*startRequest) (*startResponse, error) { return &startResponse{}, nil })
	item := anItem()
	item.TaskQueue = "orders\xff"
	_ = requireStart(t, service, item, engine.Permanent)

	item = anItem()
	item.WorkflowID = "Grüße" // the SDK sends it in a header, which gRPC refuses
	require.ErrorContains(t, requireStart(t, service, item, engine.Permanent), "non-printable ASCII characters")

	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	require.NoError(t, listener.Close())
	_ = requireStart(t, clientOf(t, listener.Addr().String(), nil).WorkflowService(), anItem(), engine.Unreached)
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
			require.ErrorContains(t, requireStart(t, service, anItem(), engine.Unreached), says)
		})
	}
}

func TestRequestThatWasSentAndLostIsUnanswered(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
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
	_ = requireStart(t, service, anItem(), engine.Unanswered)
	_ = requireStart(t, service, anItem(), engine.Unreached) // the server is gone
}

func TestATemporalOffThisMachineMustBeVerified(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		address  string
		options  client.ConnectionOptions
		verified bool
	}{
		{"", client.ConnectionOptions{}, true},
		{"localhost:7233", client.ConnectionOptions{}, true},
		{"[::1]:7233", client.ConnectionOptions{}, true},
		{"unix:///run/temporal.sock", client.ConnectionOptions{}, true},
		{"dns:///localhost:7233", client.ConnectionOptions{}, true},
		{"temporal.example:7233", client.ConnectionOptions{}, false},
		{"dns:///temporal.example:7233", client.ConnectionOptions{}, false},
		{"temporal.example", client.ConnectionOptions{}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}}, true},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}, TLSDisabled: true}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{InsecureSkipVerify: true}}, false},
	} {
		options := client.Options{HostPort: row.address, ConnectionOptions: row.options}
		require.NoError(t, Target{AllowUnverified: true}.verify(options))
		err := Target{}.verify(options)
		if row.verified {
			require.NoError(t, err, row)
			continue
		}
		require.ErrorIs(t, err, local.ErrUnverified, row)
		require.ErrorContains(t, err, "PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on", row)
	}
}

func TestAHostNameWithoutAnAddressIsNamed(t *testing.T) {
	t.Parallel()
	connection, _, err := Target{Address: "nohost.invalid:7233", AllowUnverified: true}.Dial(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	_, err = connection.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.ErrorContains(t, err, `TEMPORAL_ADDRESS is "nohost.invalid:7233": the host name does not resolve`)
}

func TestAnAPIKeyIsReadAnewEveryFewSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write := func(key string) { require.NoError(t, os.WriteFile(path, []byte(key), 0o600)) }
		write("first\n")
		var log bytes.Buffer
		f := apiKeyFile(path, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, f.open())
		requireKey := func(want string) {
			t.Helper()
			key := must.Get(f.get(t.Context())).In(t)
			require.Equal(t, want, key)
		}
		write("second\n")
		requireKey("first")
		time.Sleep(secretInterval)
		requireKey("second")
		require.Contains(t, log.String(), "Temporal's API key has changed")
		require.NotContains(t, log.String(), "second")
		for range 2 {
			require.NoError(t, os.RemoveAll(path))
			time.Sleep(secretInterval)
			requireKey("second")
		}
		write("")
		time.Sleep(secretInterval)
		requireKey("second")
		require.Equal(t, 1, bytes.Count(log.Bytes(),
			[]byte("Cannot read Temporal's API key anew: going on with the last")), "once")
		write("third")
		time.Sleep(secretInterval)
		requireKey("third")
	})
}

// Whoever reaches the port can send a token. It is valid only for the execution for which it was made.
func FuzzCallbackToken(f *testing.F) {
	key := []byte("0123456789abcdef")
	of := Execution{ID: "5d0cdb0b-3e0f-4c25-8a3e-7f6d1c7a0001", WorkflowID: "order-17", Namespace: "default"}
	good := CallbackHeader(key, of)["authorization"]
	for n := range good {
		f.Add(good[:n])
		f.Add(good[:n] + "x" + good[n+1:])
	}
	f.Add(good)
	f.Add(strings.Replace(good, "5d0cdb0b", "5d0cdb0c", 1))
	f.Add(CallbackHeader([]byte("another key"), of)["authorization"])
	f.Fuzz(func(t *testing.T, token string) {
		named, valid := CheckCallback(key, http.Header{"Authorization": {token}})
		if token == good {
			require.True(t, valid)
		}
		if valid {
			require.Equal(t, of, named)
			require.Equal(t, good, token)
		}
	})
}

// Start options are checked by SQL. What a table without its triggers has let in is an error, or a request that can be
// sent; never a panic.
func FuzzStartOptions(f *testing.F) {
	for _, text := range []string{"", "null", "{}", "[]", `{"memo": {"a": 1}}`, `{"memo": {"pgdispatch_execution_id": 1}}`,
		`{"retry_policy": {"initial_interval": "1s", "maximum_interval": null}}`, `{"workflow_run_timeout": "-1s"}`,
		`{"workflow_run_timeout": 1}`, `{"search_attributes": {"A": null}}`, `{"versioning_override": {"pinned": {}}}`,
		`{"versioning_override": {"auto_upgrade": true, "pinned": null}}`, `{"priority": {"fairness_weight": 1e39}}`,
		`{"static_summary": {"a": []}}`, `{"memo": {"a": 1}} {`, `{"unknown": 1}`, `{"start_to_close_timeout": "9h"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		service, start := &startService{}, anItem()
		start.Options = []byte(text)
		_, err := starterOn(service).Start(t.Context(), start)
		if err != nil {
			require.Empty(t, service.started, "nothing is sent")
			return
		}
		sent := must.Get(proto.Marshal(service.started[0])).In(t)
		require.NotEmpty(t, sent)
		require.Equal(t, "pgdispatch-"+start.ID, service.started[0].RequestId, "no option changes the request ID")
	})
}
