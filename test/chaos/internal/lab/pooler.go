package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/internal/pooler"
)

// Pooler starts PgBouncer in transaction mode in front of the primary.
func (l *Lab) Pooler(ctx context.Context) (address string, stop func() error, err error) {
	p, err := pooler.Start(ctx, l.Primary().Address(), "")
	if errors.Is(err, pooler.ErrMissing) {
		err = fmt.Errorf("%w: %w", postgres.ErrNotHere, err)
	}
	if err != nil {
		return "", nil, err
	}
	return p.Address, p.Stop, nil
}
