//go:build !failpoint

package replica

// failpoints does nothing. Build with -tags failpoint to enable it.
func failpoints(*replica) {}
