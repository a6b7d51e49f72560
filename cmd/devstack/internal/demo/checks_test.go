package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckOutcomes(t *testing.T) {
	t.Parallel()
	good := []outcome{
		{ItemID: 1, Status: "COMPLETED"},
		{ItemID: 2, Status: "FAILED", ShouldFail: true, LastError: "node b failed on purpose"},
	}
	require.Empty(t, checkOutcomes(good).Wrong)
	require.Equal(t, "  ok    1 items completed, 1 failed on purpose", checkOutcomes(good).String())

	require.Len(t, checkOutcomes(nil).Wrong, 1, "no items is a failure")
	bad := checkOutcomes([]outcome{
		{ItemID: 1, Status: "FAILED", LastError: "boom"},
		{ItemID: 2, Status: "COMPLETED", ShouldFail: true},
		{ItemID: 3, Status: "FAILED", ShouldFail: true},
		{ItemID: 4, Status: "CANCELLED"},
	})
	require.Equal(t, []string{
		"item 1 is FAILED, not COMPLETED (boom)",
		"item 2 is COMPLETED, not FAILED ()",
		"item 3 failed without an error",
		"item 4 is CANCELLED, not COMPLETED ()",
	}, bad.Wrong)
}

func TestCheckPeaks(t *testing.T) {
	t.Parallel()
	good := workspace{Name: "B", Slots: 5, Peak: 5}
	require.Empty(t, checkPeaks([]workspace{good}).Wrong)
	require.Equal(t, []string{"A had 2 running at once, its limit is 1"},
		checkPeaks([]workspace{{Name: "A", Slots: 1, Peak: 2}, good}).Wrong)
}

func TestCheckWorkflows(t *testing.T) {
	t.Parallel()
	outcomes := []outcome{{ItemID: 1, ExecutionID: "x"}, {ItemID: 2, ExecutionID: "y"}}
	require.Empty(t, checkWorkflows(outcomes, []string{"execution-y", "execution-x"}).Wrong)

	bad := checkWorkflows(outcomes, []string{"execution-x", "execution-x", "stranger"})
	require.Equal(t, []string{
		"item 1 has 2 runs of execution-x", "item 2 has 0 runs of execution-y", "stranger belongs to no item",
	}, bad.Wrong)
	require.Contains(t, bad.String(), "WRONG")
}
