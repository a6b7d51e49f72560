package web

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheItemPageShowsTheItemsKeys(t *testing.T) {
	t.Parallel()
	item := dead
	item.EnqueueKey, item.LimitKey = "sync-17", "smtp"
	_, text := get(t, &fakeReader{item: &item}, "/ui/items/8")
	require.Contains(t, text, "<dt>Enqueue key</dt><dd>sync-17</dd>")
	require.Contains(t, text, "<dt>Limit key</dt><dd>smtp</dd>")
	item.IdempotencyKey, item.EnqueueKey, item.LimitKey = "", "", ""
	_, text = get(t, &fakeReader{item: &item}, "/ui/items/8")
	require.NotContains(t, text, "key</dt>")
}
