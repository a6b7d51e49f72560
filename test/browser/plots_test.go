package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// clipped selects the texts of the plots that are cut off: wider or higher than their box, or reaching beyond their
// figure's.
const clipped = `[...document.querySelectorAll(".plots figure")].flatMap(figure => {
	const room = figure.getBoundingClientRect();
	return [...figure.querySelectorAll("figcaption, figcaption *, .x, .x *, .y, .y *")].filter(e => {
		const range = document.createRange();
		range.selectNodeContents(e);
		const text = range.getBoundingClientRect();
		return text.width > 0 && (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 ||
			text.left < room.left - 1 || text.right > room.right + 1);
	}).map(e => e.innerText);
})`

func TestNoFigureOfAPlotIsClipped(t *testing.T) {
	t.Parallel()
	for _, width := range []int{390, 768, 1024, 1440, 1920} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			p := shared.full.open(t, "/ui/", still, chromedp.EmulateViewport(int64(width), 900))
			for _, path := range []string{"/ui/", "/ui/workspaces/" + workspaceID(t, "Acme Oslo") + "?period=24h"} {
				p.visit(path)
				require.NotEmpty(t, p.texts(".plots .y"))
				require.Empty(t, ask[[]string](p, clipped))
				// However long a figure is.
				p.run(chromedp.Evaluate[chromedp.Void](
					`document.querySelectorAll(".plots .y span").forEach(e => { e.innerText = "1,234,567,890"; })`))
				require.Empty(t, ask[[]string](p, clipped))
			}
		})
	}
}

func TestTheActivityOfAWorkspaceIsShownForAChosenPeriod(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/workspaces/"+workspaceID(t, "Acme Oslo"))
	for _, c := range []struct {
		query, words string
		bars         int
	}{{"6h", "6 hours", 72}, {"24h", "24 hours", 96}, {"1h", "hour", 12}} {
		p.follow(chromedp.Click(chromedp.CSS(`.tabs a[href*="period=` + c.query + `"]`)))
		require.Equal(t, "Last "+c.words, p.text("#activity"))
		require.Equal(t, 2*c.bars, ask[int](p, `document.querySelectorAll(".plot .hover").length`))
		require.Empty(t, p.violations())
	}
	first := ask[string](p, `document.querySelector(".plot title").textContent`)
	require.Regexp(t, `^\d\d:\d\d UTC: \d+ started, `, first)
	p.run(chromedp.Evaluate[chromedp.Void](`(() => { const e = document.getElementById("times"); e.value = "local";
		e.dispatchEvent(new Event("change")); })()`))
	require.Regexp(t, `^\d\d:\d\d [+-]\d\d:\d\d: \d+ started, `,
		ask[string](p, `document.querySelector(".plot title").textContent`))
	require.Regexp(t, `^\d\d:\d\d [+-]\d\d:\d\d$`,
		ask[string](p, `document.querySelector(".x time").textContent`))
}
