package browser

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestTheKeyboardReachesEverythingInOrderAndItIsSeenWhereItIs(t *testing.T) {
	t.Parallel()
	for name, page := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page.site.open(t, page.path, still)
			all := ask[int](p, helpers+`reachable().length`)
			require.Greater(t, all, 4)
			for n := range all {
				p.press(kb.Tab)
				at := p.focus()
				require.Equal(t, n, at.Index, "Tab stops at %q", at.Label)
				require.True(t, at.Ring, "%q is not outlined", at.Label)
				require.True(t, at.Seen, "%q is not on the screen", at.Label)
				require.NotEmpty(t, at.Label, "the element at %d has no label", n)
			}
		})
	}
}

func TestTheSkipLinkLeadsPastTheNavigation(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/workspaces")
	p.press(kb.Tab)
	require.Equal(t, "Skip to content", p.focus().Label)
	p.press(kb.Enter, kb.Tab)
	require.Equal(t, "Live", p.focus().Label)
}

func TestListsAreSearchedAndSortedByKeyboard(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/workspaces")
	p.tabTo("Name or ID")
	p.press("g", "l", "O", "b")
	p.follow(chromedp.KeyEvent(kb.Enter))
	names := p.texts("tbody th")
	require.Len(t, names, 15)
	for _, name := range names {
		require.True(t, strings.HasPrefix(name, "Globex "), name)
	}
	p.tabTo("Sort by")
	p.press("n") // selects "name"
	p.tabTo("Show")
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "name", ask[string](p, `document.querySelector("[name=sort]").selectedOptions[0].text`))
	require.IsIncreasing(t, p.texts("tbody th"))

	p.visit("/ui/items")
	p.tabTo("Filter")
	p.press(strings.Split(`status:FAILED workspace:"Acme Lima" since:168h`, "")...)
	p.follow(chromedp.KeyEvent(kb.Enter))
	require.NotEmpty(t, p.texts("tbody tr"))
	for _, row := range p.texts("tbody tr") {
		require.Contains(t, row, "failed")
		require.Contains(t, row, "Acme Lima")
	}
	require.Contains(t, ask[string](p, "location.search"), "since=168h", "the URL contains every filter")
}

func TestListsGoOnPageByPageByKeyboard(t *testing.T) {
	t.Parallel()
	p := shared.full.open(t, "/ui/items?status=COMPLETED")
	last := int64(1 << 62)
	for range 4 {
		for _, text := range p.texts("tbody th") {
			id, err := strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
			require.Less(t, id, last, "newest first, without duplicates")
			last = id
		}
		p.tabTo("Older items")
		p.follow(chromedp.KeyEvent(kb.Enter))
	}
	p.visit("/ui/workspaces?sort=name&q=er")
	var names []string
	for {
		names = append(names, p.texts("tbody th")...)
		if len(p.texts("a[rel=next]")) == 0 {
			break
		}
		p.tabTo("Next page")
		p.follow(chromedp.KeyEvent(kb.Enter))
	}
	require.Len(t, names, one[int](t, shared.full, "select count(*) from pgdispatch.workspaces where name like '%er%'"))
	require.IsIncreasing(t, names)
}
