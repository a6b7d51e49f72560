//go:build repeatable

package simulation

import "runtime"

// seedRuntime makes Go's own choices in this bubble follow from a seed.
func seedRuntime(seed uint64) { runtime.SimulateFrom(seed) }
