// Package must saves tests the lines that each of them would repeat: for errors that must not come, and for cases.
package must

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Result is what a call returned.
type Result[T any] struct {
	value T
	err   error
}

// Get holds what a call returned, whose error fails the test that In is given.
func Get[T any](value T, err error) Result[T] { return Result[T]{value, err} }

// In returns the value. It fails the test if the call returned an error.
func (r Result[T]) In(t testing.TB) T {
	t.Helper()
	require.NoError(t, r.err)
	return r.value
}

// Each runs a test for each of its cases, by name, beside other tests. The cases run one after another, unless the test
// calls t.Parallel.
func Each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}
