package temporal

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

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
