package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
)

// Certificate is a server's certificate and its key, in PEM files. A change of the files applies from the next
// connection on. If the new ones cannot be used, such as while only one is replaced, the old ones stay.
type Certificate struct {
	CertFile, KeyFile string
	Log               *slog.Logger

	mu        sync.Mutex
	pair      *tls.Certificate
	state     string // of the files that pair was read from
	complaint attempt.Complaint
}

// Config reads the files and returns the configuration of a listener.
func (c *Certificate) Config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.read(); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: c.current}, nil
}

func (c *Certificate) current(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx := context.WithoutCancel(hello.Context())
	was := c.state
	switch err := c.read(); {
	case err == nil:
		c.complaint.Over()
		if c.state != was {
			c.Log.InfoContext(ctx, "Uses a new certificate", "file", c.CertFile)
		}
	case c.complaint.IsNew(err):
		c.Log.WarnContext(ctx, "Cannot use the new certificate: the old one stays", "error", err)
	}
	return c.pair, nil
}

// read reads the files if they have changed.
func (c *Certificate) read() error {
	cert, certErr := os.Stat(c.CertFile)
	key, keyErr := os.Stat(c.KeyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	state := fmt.Sprint(cert.ModTime(), cert.Size(), key.ModTime(), key.Size())
	if state == c.state {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	c.pair, c.state = &pair, state
	return nil
}
