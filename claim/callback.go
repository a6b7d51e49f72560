package claim

import (
	"context"

	"github.com/pgdispatch/pgdispatch/sql"
)

// CallbackKey is what the tokens of completion callbacks are made with: the same for all replicas. It is never logged.
func (s *Store) CallbackKey(ctx context.Context) ([]byte, error) {
	return one[[]byte](ctx, s.async(), settleTimeout, "read callback key", sql.CallbackKey)
}
