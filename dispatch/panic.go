package dispatch

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// contained runs a part of the dispatcher and returns its panic as an error, so that no part ends while the others
// continue without it.
func contained(log *slog.Logger, part string, do func()) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic in the %s: %v", part, recovered)
			log.Error("Panic in the dispatcher", "part", part, "panic", postgres.Clean(fmt.Sprint(recovered)), "stack",
				string(debug.Stack()))
		}
	}()
	do()
	return nil
}
