//go:build !repeatable

package simulation

// seedRuntime does nothing: Go's library is as installed, so its choices cannot be seeded.
func seedRuntime(uint64) {}
