package admin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// dial connects, and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", address)).In(t)
	t.Cleanup(func() { conn.Close() })
	must.Get(io.WriteString(conn, text)).In(t)
	return conn
}

func TestProbesAnswerHoweverManyConnectionsAreHeld(t *testing.T) {
	t.Parallel()
	address := serving(t, &Server{})
	var held []net.Conn
	for range mostConnections {
		held = append(held, dial(t, address, ""), dial(t, address, "GET /livez HTTP/1.1\r\nHost: x\r\n"),
			dial(t, address, "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"))
	}
	client := http.Client{Timeout: 5 * time.Second}
	answer := must.Get(client.Get("http://" + address + "/livez")).In(t)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, held[0].SetReadDeadline(time.Now().Add(headerTimeout/2)))
	_, err := held[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the connection open for longest is closed")
}

func TestABodyThatDoesNotComeEndsItsRequest(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	server := httptest.NewServer(boundBody(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}), 20*time.Millisecond))
	defer server.Close()
	dial(t, server.Listener.Addr().String(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
	require.Error(t, <-read)
}

func TestAnAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	a := &Server{Metrics: prometheus.NewRegistry(), Health: NewHealth(""), Log: quiet()}
	server := a.server(t.Context())
	require.Equal(t, writeTimeout, server.WriteTimeout)
	server.WriteTimeout = 20 * time.Millisecond
	wrote := make(chan error, 1)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := fmt.Fprint(w, "line after line, and nobody reads them\n"); err != nil {
				wrote <- err
				return
			}
		}
	})
	listener := must.Get(Listen(t.Context(), "127.0.0.1:0")).In(t)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	dial(t, listener.Addr().String(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Error(t, <-wrote)
}

// issued returns a new certificate with a serial number, and its key, as PEM.
func issued(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).In(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)).In(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private)).In(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func TestARenewedCertificateAppliesFromTheNextConnectionOn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certificate := &Certificate{CertFile: filepath.Join(folder, "a.crt"), KeyFile: filepath.Join(folder, "a.key")}
	_, err := certificate.Config()
	require.ErrorContains(t, err, "a.crt: no such file or directory")

	log := &logtest.Book{}
	certificate.Log = slog.New(log)
	replaced := time.Now().Add(-time.Hour)
	replace := func(file string, text []byte) {
		replaced = replaced.Add(time.Minute)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		require.NoError(t, os.Chtimes(file, replaced, replaced))
	}
	cert, key := issued(t, 1)
	replace(certificate.CertFile, cert)
	replace(certificate.KeyFile, key)
	address := serving(t, &Server{Certificate: certificate})
	served := func() int64 {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // reads the serial number
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.Equal(t, int64(1), served())

	cert, key = issued(t, 2)
	replace(certificate.CertFile, cert)
	require.Equal(t, int64(1), served(), "its key is not there yet")
	require.Equal(t, int64(1), served())
	replace(certificate.KeyFile, key)
	require.Equal(t, int64(2), served())
	require.Equal(t, int64(2), served())
	require.NoError(t, os.Remove(certificate.KeyFile))
	require.Equal(t, int64(2), served())
	require.Equal(t, []string{"Uses a new certificate"}, log.At(slog.LevelInfo))
	require.Len(t, log.Errors(slog.LevelWarn), 2, "each cause once")

	plain := dial(t, address, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	answer := make([]byte, 100)
	require.Contains(t, string(answer[:must.Get(plain.Read(answer)).In(t)]), "400 Bad Request")
}
