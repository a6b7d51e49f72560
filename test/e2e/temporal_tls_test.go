package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

// authority signs certificates of a server and of its clients, and keeps them in files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.key = key
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	require.NoError(t, err)
	a.write("ca.pem", "CERTIFICATE", der)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes a certificate and its key: name.pem and name.key.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	a.write(name+".pem", "CERTIFICATE", der)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".key", "PRIVATE KEY", pkcs8)
	pair, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
	require.NoError(a.t, err)
	return pair
}

// server returns a server's TLS configuration, which may require a client certificate of this authority.
func (a *authority) server(mutual bool) *tls.Config {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	c := &tls.Config{Certificates: []tls.Certificate{a.issue("temporal.internal")}, ClientCAs: pool,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	if mutual {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

// unwrapped listens with TLS and forwards to a plain-text address.
func unwrapped(t *testing.T, config *tls.Config, to string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, from); _ = server.Close() }()
				_, _ = io.Copy(from, server)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestWorkflowsAreStartedThroughMutualTLS(t *testing.T) {
	t.Parallel()
	s, a := newStack(t), newAuthority(t)
	a.issue("replica")
	address := unwrapped(t, a.server(true), s.temporal)
	trust := []string{"TEMPORAL_ADDRESS=" + address, "TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + a.path("ca.pem"),
		"TEMPORAL_TLS_SERVER_NAME=temporal.internal"}

	s.enqueue("PRO", "Echo", 2)
	stranger := s.replica(trust...).ready()
	await(t, time.Minute, func() bool {
		return stranger.has(
			"Temporal does not accept workflows; pausing starts and probing. Items stay queued and no attempt is counted")
	}, "without a certificate")
	require.Equal(t, 2, s.count("status in ('PENDING', 'CLAIMED') and failure_count = 0"))
	require.NoError(t, stranger.Kill())
	s.replica(
		append(trust, "TEMPORAL_TLS_CLIENT_CERT_PATH="+a.path("replica.pem"), "TEMPORAL_TLS_CLIENT_KEY_PATH="+
			a.path("replica.key"))...).ready()
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 2 }, "with one")
}

// frontend rejects all requests and records them.
func frontend(t *testing.T, config *tls.Config) (address string, heard chan metadata.MD) {
	t.Helper()
	address, heard, _ = frontendAt(t, config, "127.0.0.1:0")
	return address, heard
}

func frontendAt(t *testing.T, config *tls.Config, at string) (address string, heard chan metadata.MD, stop func()) {
	t.Helper()
	heard = make(chan metadata.MD, 10)
	server := grpc.NewServer(grpc.Creds(grpccredentials.NewTLS(config)),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(stream.Context())
			heard <- md
			return grpcstatus.Error(codes.PermissionDenied, "not now")
		}))
	listener, err := net.Listen("tcp", at)
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), heard, server.Stop
}

// Not parallel: Temporal's own configuration comes from the process's environment.
func TestTemporalsOwnConfigurationIsObeyed(t *testing.T) {
	a := newAuthority(t)
	a.issue("replica")
	address, heard := frontend(t, a.server(true))
	profile := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(profile, []byte(`
[profile.shop]
address = "`+address+`"
namespace = "shop.a1b2c"
api_key = "key-of-the-profile"
[profile.shop.tls]
server_name = "temporal.internal"
server_ca_cert_path = "`+a.path("ca.pem")+`"
client_cert_path = "`+a.path("replica.pem")+`"
client_key_path = "`+a.path("replica.key")+`"
`), 0o600))
	for name, value := range map[string]string{"TEMPORAL_ADDRESS": "", "TEMPORAL_NAMESPACE": "",
		"TEMPORAL_CONFIG_FILE": profile, "TEMPORAL_PROFILE": "shop"} {
		t.Setenv(name, value)
		if value == "" {
			require.NoError(t, os.Unsetenv(name))
		}
	}
	ask := func(target temporal.Target) (metadata.MD, string) {
		connection, namespace, err := target.Dial(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		defer connection.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = connection.WorkflowService().DescribeNamespace(ctx,
			&workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		require.ErrorContains(t, err, "not now")
		return <-heard, namespace
	}
	md, namespace := ask(temporal.Target{})
	require.Equal(t, []string{"Bearer key-of-the-profile"}, md.Get("authorization"))
	require.Equal(t, "shop.a1b2c", namespace)

	t.Setenv("TEMPORAL_API_KEY", "key-of-the-environment")
	md, namespace = ask(temporal.Target{Namespace: "other"})
	require.Equal(t, []string{"Bearer key-of-the-environment"}, md.Get("authorization"),
		"a variable overrides the profile")
	require.Equal(t, "other", namespace, "a flag overrides both")

	t.Setenv("TEMPORAL_PROFILE", "nobody")
	err := temporal.Target{}.Verify()
	require.ErrorContains(t, err,
		"read Temporal's configuration (TEMPORAL_* variables, or the profile in TEMPORAL_CONFIG_FILE)")
}
