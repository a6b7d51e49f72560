package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestColumnsLineUpWhateverTheCharactersAre(t *testing.T) {
	t.Parallel()
	screen := busy()
	screen.Workspaces = nil
	names := []string{"plain", "東京支店", "한국어", "🚀 rocket", "Ｆｕｌｌ", "cafe\u0301", strings.Repeat("長", 40)}
	for _, name := range names {
		screen.Workspaces = append(screen.Workspaces, operate.WorkspaceRow{Name: name, Plan: "SAMEPLAN", Limit: 1})
	}
	found := 0
	for _, line := range screen.Lines(Style{}) {
		if before, _, is := strings.Cut(line, "SAMEPLAN"); is {
			found++
			require.Equal(t, nameWidth-1+2, ansi.StringWidth(before),
				"two columns beyond the longest name, which is cut at an odd one: %q", line)
		}
	}
	require.Equal(t, len(names), found)
	require.Equal(t, "長長…", Style{Width: 6}.cut("長長長長", 0), "half a wide character is dropped")
}

func TestWhatIsCutEndsWithAnEllipsisAndRemediesAreWrapped(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", Style{Width: 3}.cut("abc", 0))
	require.Equal(t, "ab…", Style{Width: 3}.cut("abcd", 0))
	require.Equal(t, "…d", Style{Width: 3}.cut("abcd", 2))
	require.Equal(t, "…d…", Style{Width: 3}.cut("abcdefg", 2))
	painted := Style{Width: 3, Colour: true}
	require.Equal(t, "\x1b[31mab…\x1b[0m", painted.cut("\x1b[31mabcd\x1b[0m", 0))

	screen := busy()
	screen.Depth.Paused = true
	lines := screen.Lines(Style{Width: 80, Height: 24})
	text := strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
	for _, c := range Concerns(screen.Overview) {
		require.Contains(t, text, c.What)
		require.Contains(t, text, "→ "+c.Remedy, "at 80x24")
	}
}

func TestTheScreenScrollsBelowItsFirstLine(t *testing.T) {
	t.Parallel()
	screen := busy()
	screen.Footer = "q ends"
	screen.Workspaces = nil
	for n := range 50 {
		screen.Workspaces = append(screen.Workspaces, operate.WorkspaceRow{Name: fmt.Sprintf("workspace-%d", n)})
	}
	style := Style{Width: 80, Height: 24}
	top := screen.Lines(style)
	require.Contains(t, top[22], "scroll or enlarge the terminal to see them")
	screen.Scroll = 3
	require.Equal(t, top[:1], screen.Lines(style)[:1])
	require.Equal(t, top[4:20], screen.Lines(style)[1:17])
	for _, beyond := range []int{screen.MaxScroll(style), 1000} {
		screen.Scroll = beyond
		lines := screen.Lines(style)
		require.Len(t, lines, 24)
		require.Contains(t, lines[22], "workspace-49", "the last")
	}
	require.Zero(t, screen.MaxScroll(Style{}))
	screen.Instead, screen.Scroll = []string{"keys"}, 0
	require.Equal(t, []string{top[0], "keys", "q ends"}, screen.Lines(style))
}
