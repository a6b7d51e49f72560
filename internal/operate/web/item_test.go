package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/stretchr/testify/require"
)

func TestTheItemPageShowsTheItemsKeys(t *testing.T) {
	t.Parallel()
	item := dead
	item.EnqueueKey, item.LimitKey = "sync-17", "smtp"
	_, text := get(t, &fakeReader{item: &item}, "/ui/items/8")
	require.Contains(t, text, "<dt>Enqueue key</dt><dd>sync-17</dd>")
	require.Contains(t, text, `<dt>Limit key</dt><dd><a href="/ui/items?key=smtp">smtp</a></dd>`)
	item.IdempotencyKey, item.EnqueueKey, item.LimitKey = "", "", ""
	_, text = get(t, &fakeReader{item: &item}, "/ui/items/8")
	require.NotContains(t, text, "key</dt>")
}

func TestAGivenUpSignalHasAButtonWhereItMayArrive(t *testing.T) {
	t.Parallel()
	const button = `<form method="post" action="/ui/items/8/resend"><button name="signal" value="5">`
	for state, want := range map[string]bool{"PENDING": true, "CLAIMED": true, "DISPATCHED": true,
		"FAILED REPLAYED": true, "FAILED": false, "FAILED DISCARDED": false, "COMPLETED": false, "CANCELLED": false} {
		b := newBrowser(t)
		item := operate.Item{ID: 8}
		item.Status, item.Mark, _ = strings.Cut(state, " ")
		b.read.item, b.read.givenUp = &item, 5
		_, text := b.get("/ui/items/8")
		require.Equal(t, want, strings.Contains(text, button), state)
		require.Equal(t, want, strings.Contains(text, "/resend"), state)
		_, text = get(t, b.read, "/ui/items/8")
		require.NotContains(t, text, "/resend", "not for those who only look")
	}
}

func TestAResendThatIsNotPossibleChangesNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"", "0", "-1", "x", "99999999999999999999"} {
		b := newBrowser(t)
		code, text := b.post("/ui/items/8/resend", url.Values{"signal": {signal}})
		require.Equal(t, 400, code, signal)
		require.Contains(t, text, "signal must be the number of a signal.")
		require.Empty(t, b.change.calls)
	}
	b := newBrowser(t)
	b.change.late = true // the signal is of another item
	code, text := b.post("/ui/items/8/resend", url.Values{"signal": {"5"}})
	require.Equal(t, 409, code)
	require.Contains(t, text, "Nothing was changed")
}
