package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleBoard() board {
	p50, p99 := 3.14, 12.0
	return board{
		Workspaces: []workspaceRow{
			{ID: "a", Name: "Acorn Bakery", Plan: "FREE", Slots: 1, Pending: 7, Running: 1, Completed: 3, Failed: 1, P50: &p50, P99: &p99},
			{ID: "b", Name: "A name that is far too long", Plan: "ENTERPRISE", Slots: 20, Cancelled: 2},
		},
		Failures: []failure{{ItemID: 5, Workspace: "Acorn Bakery", Error: "node bake failed\nwith a second line"}},
		Peaks:    map[string]int{"a": 1},
	}
}

func TestTableShowsEveryWorkspace(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"  workspace        plan         pending   running      peak  completed  failed pickup p50 pickup p99",
		"  Acorn Bakery     FREE               7       1/1       1/1          3       1     3.1 ms    12.0 ms",
		"  A name that is … ENTERPRISE         0      0/20      0/20          0       0          -          -",
		"  failed: item 5 of Acorn Bakery: node bake failed",
	}, sampleBoard().lines())
}

func TestBoardCountsItems(t *testing.T) {
	t.Parallel()
	require.Equal(t, 8, sampleBoard().unfinished())
	require.Equal(t, 14, sampleBoard().total())
}

func TestScreenWithoutATerminalWritesNowAndThen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := newScreen(&out)

	s.table([]string{"first"}, []string{"note"}, false)
	s.table([]string{"too soon"}, []string{"note"}, false)
	s.table([]string{"last"}, []string{"note"}, true)

	require.NotContains(t, out.String(), "\x1b", "no cursor movement")
	require.NotContains(t, out.String(), "too soon")
	require.Regexp(t, `(?s)first.*last.*note`, out.String())
	require.Equal(t, 1, strings.Count(out.String(), "note"))
}

func TestScreenRedrawsInPlaceOnATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := newScreen(&out)
	s.terminal = 1 << 20 // a descriptor that is none: the width is then 80

	s.table([]string{strings.Repeat("x", 200)}, []string{"note"}, false)
	require.NotContains(t, out.String(), "A\x1b[2K", "nothing to go up to yet")
	require.Contains(t, out.String(), "\x1b[2K"+strings.Repeat("x", 79)+"…\n")

	out.Reset()
	s.table([]string{"again"}, []string{"note"}, false)
	require.True(t, strings.HasPrefix(out.String(), "\x1b[3A"), "up by the clock, the line and the note")

	s.printf("progress")
	out.Reset()
	s.table([]string{"below"}, nil, false)
	require.False(t, strings.HasPrefix(out.String(), "\x1b[3A"), "a line of progress stays")
}

func TestShorten(t *testing.T) {
	t.Parallel()
	require.Equal(t, "äöü", shorten("äöü", 3))
	require.Equal(t, "ä…", shorten("äöü", 2))
	require.Empty(t, shorten("äöü", 0))
}
