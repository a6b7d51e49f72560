package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// tops are how many different heights the elements that match a selector begin at.
func (p *tab) tops(selector string) int {
	p.t.Helper()
	return ask[int](p, `new Set([...document.querySelectorAll("`+selector+`")].filter(e => e.checkVisibility())
		.map(e => Math.round(e.getBoundingClientRect().top))).size`)
}

// longest is how high a page of 25 rows may be on a phone, in pixels.
const longest = 4000

func TestOnAPhoneNoPageIsLongAndTheHeaderIsOneLine(t *testing.T) {
	t.Parallel()
	for name, page := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page.site.open(t, page.path, still, phone)
			require.LessOrEqual(t, ask[int](p, `(() => {
				document.querySelectorAll(".cards tbody tr:nth-child(n + 26)").forEach(row => row.remove());
				return document.documentElement.scrollHeight;
			})()`), longest)
			require.LessOrEqual(t, ask[int](p, `document.querySelector("header").offsetHeight`), 56)
			require.True(t, ask[bool](p, `[...document.querySelectorAll("header > :not(nav)")].every(e =>
				e.getBoundingClientRect().bottom <= 56 && e.getBoundingClientRect().right <= innerWidth)`), "in one line")
		})
	}
}

func TestTheNumbersStandInOneRow(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/", still)
	for _, path := range []string{"/ui/", "/ui/workspaces/" + workspaceID(t, "Acme Oslo")} {
		p.visit(path)
		p.run(desk)
		require.Equal(t, 1, p.tops(".figures dt"), path)
		p.run(phone)
		numbers := len(p.texts(".figures dt"))
		require.Equal(t, numbers, 4*p.tops(".figures dt"), "four in each row, and none is left over: %s", path)
	}
}
