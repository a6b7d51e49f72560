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
	return [...figure.querySelectorAll("figcaption, figcaption *, .range, .range *")].filter(e => {
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
			require.NotEmpty(t, p.texts(".plots .top"))
			require.Empty(t, ask[[]string](p, clipped))
			// The same with a very long figure.
			p.run(chromedp.Evaluate[chromedp.Void](
				`document.querySelectorAll(".plots .top").forEach(e => { e.innerText = "max about 1,234,567,890"; })`))
			require.Empty(t, ask[[]string](p, clipped))
		})
	}
}
