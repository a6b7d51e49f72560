package postgres

import (
	"context"
	"crypto/tls"

	"github.com/jackc/pgx/v5"
)

// certify reads the certificates for each new connection of a pool, because their files may have changed. If they
// cannot be read, it keeps the previous ones.
func (t Target) certify(_ context.Context, connConfig *pgx.ConnConfig) error {
	if fresh, err := pgx.ParseConfig(t.URL); err == nil && t.verify(fresh) == nil {
		connConfig.TLSConfig, connConfig.Fallbacks = fresh.TLSConfig, fresh.Fallbacks
	}
	return nil
}

// Certificates returns how the next connection is verified, or nil if it is not.
func (t Target) Certificates() *tls.Config {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return nil
	}
	return config.TLSConfig
}
