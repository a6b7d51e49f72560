//go:build !repeatable

package simulation

// repeats means that the order of goroutines follows from the seed. Here it does not: Go's library is as installed.
const repeats = false

func seedRuntime(uint64) {}
