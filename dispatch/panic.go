package dispatch

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/pgdispatch/pgdispatch/claim"
)

// contained runs a part of the dispatcher and makes an error of its panic, so that no part is gone while the others go on
// without it.
func contained(log *slog.Logger, part string, do func()) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic in the %s: %v", part, recovered)
			log.Error("Panic in the dispatcher", "part", part, "panic", claim.Clean(fmt.Sprint(recovered)), "stack", string(debug.Stack()))
		}
	}()
	do()
	return nil
}
