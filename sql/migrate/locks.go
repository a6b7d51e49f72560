package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/sethvargo/go-retry"
)

const (
	// lockTimeout bounds one wait for a lock. New writers queue behind it. It is half of the default deadlock_timeout:
	// in a deadlock with an application, the migration gives way.
	lockTimeout = "500ms"
	// lockPause lets writers pass between two attempts, and lockPatience bounds all attempts at one step.
	lockPause    = time.Second
	lockPatience = time.Minute
)

// The SQLSTATEs of an expired lock_timeout and of a deadlock.
const (
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// retryLocks repeats do, a transaction or what can be repeated, while applications hold the locks that it needs.
func retryLocks(ctx context.Context, do retry.RetryFunc) error {
	pauses := retry.WithMaxDuration(lockPatience, retry.NewConstant(lockPause))
	return retry.Do(ctx, pauses, func(ctx context.Context) error {
		err := do(ctx)
		var postgres *pgconn.PgError
		if errors.As(err, &postgres) && (postgres.Code == lockNotAvailable || postgres.Code == deadlockDetected) {
			return retry.RetryableError(fmt.Errorf("%w: other transactions have held locks for %s: end them and run the "+
				"migration again", err, lockPatience))
		}
		return err
	})
}
