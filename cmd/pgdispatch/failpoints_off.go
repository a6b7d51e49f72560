//go:build !failpoint

package main

// failpoints does nothing. Build with -tags failpoint to enable it.
func failpoints(*replica) {}
