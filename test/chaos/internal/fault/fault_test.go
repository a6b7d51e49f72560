package fault

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryFaultSaysWhatItIs(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range All() {
		require.NotEmpty(t, f.Name)
		require.False(t, names[f.Name], "%s appears twice", f.Name)
		names[f.Name] = true
		require.NotEmpty(t, f.Matrix, f.Name)
		require.NotEmpty(t, f.Domain, f.Name)
		require.NotEmpty(t, f.How, f.Name)
		require.NotEmpty(t, f.Lift, f.Name)
		require.NotEmpty(t, f.Figure, f.Name)
		require.NotNil(t, f.Inject, f.Name)
		require.LessOrEqual(t, f.Shortest, f.Longest, f.Name)
		require.True(t, f.Limit > 0 || f.Unit != "", f.Name)
		for _, n := range f.Matrix {
			require.True(t, n >= 1 && n <= 76, "%s: %d", f.Name, n)
		}
		require.True(t, f.Alone || !f.Long, "%s takes too long to overlap with others", f.Name)
	}
}

func TestAResultIsHeldAgainstItsLimit(t *testing.T) {
	t.Parallel()
	f := &Fault{Limit: 2}
	require.True(t, Result{Fault: f, Value: 2, Measured: true}.OK())
	require.False(t, Result{Fault: f, Value: 2.1, Measured: true}.OK())
	require.False(t, Result{Fault: f, Err: errors.New("it could not be made")}.OK())
}

func TestAFaultThatHitNobodyHasNoFigure(t *testing.T) {
	t.Parallel()
	_, err := reclaimed(nil, nil, time.Now())(t.Context())
	require.ErrorIs(t, err, errNothingHeld)
}
