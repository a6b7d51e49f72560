package temporal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

const (
	// maxCodecAnswer limits an answer of the codec server, in bytes. Temporal's payloads are at most 2 MiB each.
	maxCodecAnswer = 32 << 20
	// mostIdleCodecConnections are kept for the next calls. Each worker of a replica makes one call at a time.
	mostIdleCodecConnections = 100
)

// codecAnswer is a status of the codec server other than 200. Its text is not kept: it may quote a payload.
type codecAnswer int

// Error implements error.
func (a codecAnswer) Error() string {
	return fmt.Sprintf("it answers %d %s", int(a), http.StatusText(int(a)))
}

// needsAPerson reports whether trying again later cannot help.
func (a codecAnswer) needsAPerson() bool {
	return a >= 300 && a < 500 && a != http.StatusRequestTimeout && a != http.StatusTooManyRequests
}

// isRefused reports whether the codec server refuses the payloads, as far as its status can tell.
func isRefused(err error) bool {
	var answer codecAnswer
	return errors.As(err, &answer) && (answer == http.StatusBadRequest || answer == http.StatusRequestEntityTooLarge ||
		answer == http.StatusUnprocessableEntity)
}

// isMalformed reports whether there was an answer that a codec server does not give.
func isMalformed(err error) bool {
	var answer codecAnswer
	var network net.Error
	return !errors.As(err, &answer) && !errors.As(err, &network) && !errors.Is(err, io.EOF) &&
		!errors.Is(err, io.ErrUnexpectedEOF) && !isUntrusted(err)
}

func isUntrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// withoutURL removes the URL from an error that CodecError prefixes with the endpoint.
func withoutURL(err error) error {
	var located *url.Error
	if errors.As(err, &located) {
		return located.Err
	}
	return err
}

// codecTransport makes one call of a codec, whose SDK knows neither contexts nor the statuses of answers.
type codecTransport struct {
	codec     *Codec
	ctx       context.Context //nolint:containedctx // of this call
	namespace string
}

// RoundTrip implements http.RoundTripper. A redirection is an error, so payloads go to no other server.
func (t codecTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(t.ctx)
	request.Header.Set("X-Namespace", t.namespace)
	if t.codec.token != nil {
		token, err := t.codec.token.get(t.ctx)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", bearer+token)
	}
	response, err := t.codec.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, codecAnswer(response.StatusCode)
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxCodecAnswer)
	return response, nil
}

// newCodecTransport returns the connections to a codec server, whose certificate the authorities in a file have signed.
// Without a file, those that the machine trusts must have.
func newCodecTransport(caFile string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = mostIdleCodecConnections, mostIdleCodecConnections
	transport.Protocols = &http.Protocols{} // HTTP/2 would go on with a dead connection after a timeout
	transport.Protocols.SetHTTP1(true)
	if caFile == "" {
		return transport, nil
	}
	roots, err := readRoots(caFile)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[x509.CertPool]
	last.Store(roots)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} // behind an HTTP proxy
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if fresh, err := readRoots(caFile); err == nil {
			last.Store(fresh)
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second},
			Config: &tls.Config{RootCAs: last.Load(), MinVersion: tls.VersionTLS12}}
		return dialer.DialContext(ctx, network, address)
	}
	return transport, nil
}

func readRoots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(text) {
		err = errors.New("it has no certificate in PEM format")
	}
	if err != nil {
		return nil, fmt.Errorf("PGDISPATCH_CODEC_CA_FILE is %q: %w", path, err)
	}
	return roots, nil
}
