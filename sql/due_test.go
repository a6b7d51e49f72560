package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// That work is due wherever a claim finds an item is held by every claim of every test: see fixture.claim.

func TestNothingIsDueWhereNothingCanBeClaimed(t *testing.T) {
	t.Parallel()
	f := open(t)
	due := func() bool { return one[bool](f, "select pgdispatch.work_due()") }
	require.False(t, due(), "an empty queue")

	w := f.tenant("FREE")
	f.items(w, 2)
	require.True(t, due())
	running := f.claim(10)
	require.Len(t, running.items, 1)
	require.False(t, due(), "one waits, and its workspace is full")
	f.dispatched(running)
	require.False(t, due())

	f.at(f.tenant("PRO"), 0, lease)
	f.claim(10)
	require.False(t, due(), "what is due in a minute is not due")

	f.finish(running.ids()[0], "COMPLETED")
	require.True(t, due(), "the slot is free")
	f.exec(sql.SettingsSet, nil, true, nil, "me")
	require.False(t, due(), "paused")
	f.exec(sql.SettingsSet, nil, false, nil, "me")
	f.dispatched(f.claim(10))
	require.False(t, due())
}
