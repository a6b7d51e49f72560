//go:build race

package simulation

// raced means that the race detector is on. It needs several processors and goroutines that may be interrupted, so
// these runs cannot be repeated.
const raced = true
