package claim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// buried enqueues items of the shop, and has a replica fail them.
func (b *bench) buried(items int, reason string) []Item {
	b.t.Helper()
	claimed := b.claimed(b.Store, items)
	settlements := []Settlement{}
	for _, item := range claimed {
		settlements = append(settlements, Settlement{ID: item.ID, Token: item.Token, Error: reason})
	}
	ids, err := b.Settle(b.t.Context(), Fail, settlements)
	require.NoError(b.t, err)
	require.Len(b.t, ids, items)
	return claimed
}

func TestDeadLettersAreFoundReadReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	items := b.buried(3, "line\nbreak")
	hour := time.Hour
	ids, err := b.FindDeadLetters(t.Context(), DeadFilter{Workspace: "shop", Definition: "order", Error: "LINE", Since: Moment{Ago: &hour}}, 2)
	require.NoError(t, err)
	require.Len(t, ids, 2)
	ids, err = b.FindDeadLetters(t.Context(), DeadFilter{Until: Moment{Ago: &hour}}, 0)
	require.NoError(t, err)
	require.Empty(t, ids)

	letters, err := b.DeadLetters(t.Context(), []int64{items[0].ID, 999}, []string{items[1].ExecutionID})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Equal(t, "line break", letters[0].LastError)
	failures, err := b.Failures(t.Context(), items[0].ID)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.Equal(t, "a", failures[0].Replica)

	replay, err := b.Replay(t.Context(), items[0].ExecutionID, "ann")
	require.NoError(t, err)
	require.True(t, replay.Replayed)
	replayed, err := b.ReplayAll(t.Context(), []int64{items[0].ID, items[1].ID}, "ann")
	require.NoError(t, err)
	require.Len(t, replayed, 1)
	require.Equal(t, items[1].ID, replayed[0].ID)
	discarded, err := b.Discard(t.Context(), []int64{items[1].ID, items[2].ID}, "ann")
	require.NoError(t, err)
	require.Equal(t, []int64{items[2].ID}, discarded)
	workspace, definition, err := b.KnowsName(t.Context(), "shop", "oder")
	require.NoError(t, err)
	require.True(t, workspace)
	require.False(t, definition)
}

func TestRetentionIsChangedAndLeavesTheOtherSettingsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	keep, keepDead := 36*time.Hour, 24*time.Hour
	_, err := b.SetRetention(t.Context(), &keep, "me")
	require.NoError(t, err)
	_, err = b.SetDeadLetterRetention(t.Context(), &keepDead, "me")
	require.NoError(t, err)
	settings, err := b.SetSettings(t.Context(), nil, nil, nil, "me")
	require.NoError(t, err)
	require.Equal(t, Settings{MaxClaims: 100, Retention: &keep, DeadLetterRetention: &keepDead, ResultBytes: 4096}, settings)
	settings, err = b.SetRetention(t.Context(), nil, "me")
	require.NoError(t, err)
	require.Equal(t, Settings{MaxClaims: 100, DeadLetterRetention: &keepDead, ResultBytes: 4096}, settings)

	b.buried(2, "it broke")
	deleted, err := b.DeleteFinished(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, Deleted{}, deleted)
}
