package temporal

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/internal/local"
)

const (
	// connectTimeout limits one attempt to connect.
	connectTimeout = 5 * time.Second
	// reconnectBase and reconnectCap limit the backoff for connecting.
	reconnectBase = 100 * time.Millisecond
	reconnectCap  = time.Second
)

const unverified = "TEMPORAL_ADDRESS: the connection to %s is %w: it leaves this machine without TLS, or without " +
	"checking the certificate. " +
	"Set TEMPORAL_TLS=true, and TEMPORAL_TLS_SERVER_CA_CERT_PATH for a private CA; or, on a trusted network, " +
	"PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on"

// Target is a Temporal frontend to connect to. What it leaves empty is read from Temporal's own configuration.
type Target struct {
	Address   string // host:port
	Namespace string
	// AllowUnverified allows connections to other machines without verified TLS.
	AllowUnverified bool
}

// HostPort returns the address that Dial connects to, which Temporal's own configuration may name.
func (t Target) HostPort() string {
	options, err := t.options()
	if err != nil {
		return t.Address
	}
	return cmp.Or(options.HostPort, client.DefaultHostPort)
}

// Verify refuses a remote address without verified TLS. It also reads Temporal's own configuration.
func (t Target) Verify() error {
	options, err := t.options()
	if err != nil {
		return err
	}
	return t.verify(options)
}

func (t Target) verify(options client.Options) error {
	if host := unverifiedFrontend(options); host != "" && !t.AllowUnverified {
		return fmt.Errorf(unverified, host, local.ErrUnverified)
	}
	return nil
}

// Dial creates a client from Temporal's own configuration, like the temporal CLI: environment variables and
// profile file, including TLS and API keys. It connects on first use, so that a replica can start before Temporal. It
// also returns the namespace.
func (t Target) Dial(log *slog.Logger) (client.Client, string, error) {
	options, err := t.optionsWith(log)
	if err != nil {
		return nil, "", err
	}
	if err := t.verify(options); err != nil {
		return nil, "", err
	}
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(nameUnresolved(options.HostPort)),
		// Only dispatch may resend a start. If a start is reported as not sent, it must never have been sent.
		grpc.WithDisableRetry(),
		// Without a connection every probe fails at once, so the reconnect backoff determines how soon work resumes.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: reconnectBase, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectCap}}))
	if t.Certificates() != nil {
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
			grpc.WithTransportCredentials(newCertificates(t, options.ConnectionOptions.TLS)))
	}
	// The senders of large requests compress them themselves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.Logger = temporallog.NewStructuredLogger(log)
	made, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", fmt.Errorf("make Temporal client: %w", err)
	}
	return made, options.Namespace, nil
}

// options returns Temporal's own configuration with t's overrides.
func (t Target) options() (client.Options, error) {
	return t.optionsWith(slog.New(slog.DiscardHandler))
}

// optionsWith is options, with the log of the API key's changes.
func (t Target) optionsWith(log *slog.Logger) (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf(
			"read Temporal's configuration (TEMPORAL_* variables, or the profile in TEMPORAL_CONFIG_FILE): %w", err)
	}
	if err := withAPIKey(&options, log); err != nil {
		return options, err
	}
	options.HostPort = cmp.Or(t.Address, options.HostPort)
	options.Namespace = cmp.Or(t.Namespace, options.Namespace, client.DefaultNamespace)
	return options, nil
}

func unverifiedFrontend(options client.Options) string {
	connection := options.ConnectionOptions
	host := options.HostPort
	// "" is localhost
	if connection.TLS != nil && !connection.TLSDisabled && !connection.TLS.InsecureSkipVerify || host == "" {
		return ""
	}
	if strings.HasPrefix(host, "unix:") {
		return ""
	}
	if _, target, resolved := strings.Cut(host, ":///"); resolved { // such as dns:///temporal:7233
		host = target
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if local.Host(host) {
		return ""
	}
	return host
}

// nameUnresolved replaces gRPC's error for a host name without an address, which says nothing of it.
func nameUnresolved(hostPort string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, response, conn, options...)
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "no children to pick from") {
			return status.Errorf(codes.Unavailable, "TEMPORAL_ADDRESS is %q: the host name does not resolve to an address",
				hostPort)
		}
		return err
	}
}

// Certificates returns how the next connection is verified, or nil if it is not.
func (t Target) Certificates() *tls.Config {
	options, err := t.options()
	if err != nil || options.ConnectionOptions.TLSDisabled {
		return nil
	}
	return options.ConnectionOptions.TLS
}

// certificates reads the certificates for each new connection, because their files may have changed. If they cannot be
// read, it uses the previous ones.
type certificates struct {
	credentials.TransportCredentials // with those of the start
	target                           Target
	last                             *atomic.Pointer[tls.Config]
}

func newCertificates(target Target, config *tls.Config) certificates {
	last := &atomic.Pointer[tls.Config]{}
	last.Store(config)
	return certificates{credentials.NewTLS(config), target, last}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c certificates) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	if fresh := c.target.Certificates(); fresh != nil {
		c.last.Store(fresh)
	}
	return credentials.NewTLS(c.last.Load()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c certificates) Clone() credentials.TransportCredentials {
	return certificates{c.TransportCredentials.Clone(), c.target, c.last}
}
