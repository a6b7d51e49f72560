// Package must lets a test use what a call returns where the call stands.
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
