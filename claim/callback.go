package claim

import (
	"context"

	"github.com/pgdispatch/pgdispatch/sql"
)

// CallbackKey returns the secret key for tokens of completion callbacks. All replicas share it. It must not be logged.
func (s *Store) CallbackKey(ctx context.Context) ([]byte, error) {
	return one[[]byte](ctx, s.async(), settleTimeout, "read callback key", sql.CallbackKey)
}
