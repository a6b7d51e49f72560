//go:build !failpoint

package main

// failpoints does nothing: only a binary that is built with -tags failpoint can be told to fail.
func failpoints(*replica) {}
