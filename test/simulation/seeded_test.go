//go:build repeatable

package simulation

import "runtime"

// repeats means that the order of goroutines follows from the seed: this program was built by package repeatable.
const repeats = true

// seedRuntime makes Go's own choices in this bubble follow from a seed.
func seedRuntime(seed uint64) { runtime.SimulateFrom(seed) }
