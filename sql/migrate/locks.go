package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// lockTimeout bounds one wait for a lock. New writers queue behind it. It is half of the default deadlock_timeout:
	// in a deadlock with an application, the migration gives way.
	lockTimeout = "500ms"
	// lockPause lets writers pass between two attempts, and lockPatience bounds all attempts at one step.
	lockPause    = time.Second
	lockPatience = time.Minute
)

// retryLocks repeats do, a transaction or what can be repeated, while applications hold the locks that it needs.
func retryLocks(ctx context.Context, do retry.RetryFunc) error {
	pauses := retry.WithMaxDuration(lockPatience, retry.NewConstant(lockPause))
	return retry.Do(ctx, pauses, func(ctx context.Context) error {
		err := do(ctx)
		if postgres.FailedToLock(err) {
			return retry.RetryableError(fmt.Errorf("%w: other transactions have held locks for %s: end them and run the "+
				"migration again", err, lockPatience))
		}
		return err
	})
}
