package complete

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestNote_SaysWhenAnExecutionIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		note Note
		gone bool
	}{
		"just now":                        {Note{Missing: 1, Watched: 1, Young: true}, false},
		"for almost a minute":             {Note{MissingFor: missingFor - 1, Missing: 1, Watched: 1, Young: true}, false},
		"for a minute":                    {Note{MissingFor: missingFor, Missing: 1, Watched: 1, Young: true}, true},
		"two of two":                      {Note{MissingFor: missingFor, Missing: 2, Watched: 2, Young: true}, true},
		"three of six":                    {Note{MissingFor: time.Hour, Missing: 3, Watched: 6, Young: true}, false},
		"three of seven":                  {Note{MissingFor: missingFor, Missing: 3, Watched: 7, Young: true}, true},
		"its end may have been forgotten": {Note{MissingFor: missingFor, Missing: 9, Watched: 9}, true},
		"a person gave it up":             {Note{Missing: 9, Watched: 9, Young: true, GivenUpBy: "ann"}, true},
	} {
		require.Equal(t, c.gone, c.note.gone(), name)
	}
}

// missingDesk is what Temporal answers and what is noted about one execution.
type missingDesk struct {
	Missing
	log     logtest.Book
	missing func(at time.Duration) (Note, bool, error)
	look    func(at time.Duration) (temporal.End, bool, error)
	found   int
	looks   []time.Duration
	began   time.Time
}

func (d *missingDesk) NoteMissing(context.Context, string, time.Duration) (Note, bool, error) {
	return d.missing(time.Since(d.began))
}

func (d *missingDesk) NoteFound(context.Context, string) error {
	d.found++
	return nil
}

func (d *missingDesk) Look(context.Context, temporal.Execution) (temporal.End, bool, error) {
	d.looks = append(d.looks, time.Since(d.began))
	return d.look(time.Since(d.began))
}

func (d *missingDesk) Retention(context.Context, string) (time.Duration, error) {
	return 24 * time.Hour, nil
}

// deciding calls test with a desk whose execution is missing alone, for as long as Decide asks.
func deciding(t *testing.T, test func(t *testing.T, d *missingDesk)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &missingDesk{began: time.Now()}
		d.missing = func(at time.Duration) (Note, bool, error) {
			return Note{MissingFor: at, Young: true, Missing: 1, Watched: 1}, true, nil
		}
		d.look = func(time.Duration) (temporal.End, bool, error) { return temporal.End{}, false, temporal.ErrMissing }
		d.Missing = Missing{Store: d, Temporal: d, Log: slog.New(&d.log)}
		test(t, d)
	})
}

func TestMissing_BelievesAfterAMinuteOfAnswersThatAgree(t *testing.T) {
	deciding(t, func(t *testing.T, d *missingDesk) {
		end, ended, err := d.Decide(t.Context(), temporal.Execution{ID: "e1"})
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, temporal.Gone(temporal.Workflow), end)
		require.GreaterOrEqual(t, time.Since(d.began), missingFor)
		require.Less(t, time.Since(d.began), missingFor+missingPauseCap)
		require.Greater(t, len(d.looks), 7)
		require.Len(t, d.log.At(slog.LevelWarn), 1)
	})
}

func TestMissing_GoesOnOnceTheExecutionIsFoundAgain(t *testing.T) {
	deciding(t, func(t *testing.T, d *missingDesk) {
		d.look = func(at time.Duration) (temporal.End, bool, error) {
			if at < 3*time.Second {
				return temporal.End{}, false, temporal.ErrMissing
			}
			return temporal.End{}, false, nil
		}
		_, ended, err := d.Decide(t.Context(), temporal.Execution{ID: "e1"})
		require.NoError(t, err)
		require.False(t, ended)
		require.Equal(t, 1, d.found)
		require.Less(t, time.Since(d.began), 10*time.Second)
	})
}

func TestMissing_BelievesNothingWithoutAnAnswer(t *testing.T) {
	deciding(t, func(t *testing.T, d *missingDesk) {
		refused := errors.New("connection refused")
		d.missing = func(time.Duration) (Note, bool, error) { return Note{}, false, refused }
		d.look = func(time.Duration) (temporal.End, bool, error) { return temporal.End{}, false, temporal.ErrAway }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, ended, err := d.Decide(ctx, temporal.Execution{ID: "e1"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, ended)
		require.Len(t, d.log.At(slog.LevelWarn), 1, "the error is logged once")
	})
}

func TestMissing_CountsNoTimeWithoutAnAnswer(t *testing.T) {
	deciding(t, func(t *testing.T, d *missingDesk) {
		notes := 0
		d.missing = func(at time.Duration) (Note, bool, error) {
			notes++
			return Note{MissingFor: at, Young: true, Missing: 1, Watched: 1}, true, nil
		}
		d.look = func(time.Duration) (temporal.End, bool, error) { return temporal.End{}, false, temporal.ErrAway }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, ended, err := d.Decide(ctx, temporal.Execution{ID: "e1"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, ended)
		require.Equal(t, 1, notes, "only what Temporal answered is noted")
	})
}

func TestMissing_EndsWithAnEndThatWasRecordedMeanwhile(t *testing.T) {
	deciding(t, func(t *testing.T, d *missingDesk) {
		d.missing = func(time.Duration) (Note, bool, error) { return Note{}, false, nil }
		_, ended, err := d.Decide(t.Context(), temporal.Execution{ID: "e1"})
		require.NoError(t, err)
		require.True(t, ended)
		require.Empty(t, d.looks)
	})
}

func TestWatcher_KeepsTheSlotOfWhatTemporalDoesNotFind(t *testing.T) {
	bubble(t, func(t *testing.T, p *post) {
		d := &missingDesk{began: time.Now()}
		d.missing = func(at time.Duration) (Note, bool, error) {
			return Note{MissingFor: at, Young: true, Missing: 9, Watched: 9}, true, nil
		}
		var found atomic.Bool
		d.look = func(time.Duration) (temporal.End, bool, error) {
			if found.Load() {
				return temporal.End{}, false, nil
			}
			return temporal.End{}, false, temporal.ErrMissing
		}
		p.Missing = &Missing{Store: d, Temporal: d, Log: slog.New(&p.log)}
		p.onWait = func(ctx context.Context, _ temporal.Execution) (temporal.End, error) {
			if !found.Load() {
				return temporal.End{}, temporal.ErrMissing
			}
			return temporal.End{Outcome: "COMPLETED"}, nil
		}
		p.run()
		p.Watch("e1", "run-1")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, p.seen().finished)
		found.Store(true)
		time.Sleep(missingPauseCap)
		synctest.Wait()
		require.Equal(t, []string{"e1=COMPLETED"}, p.seen().finished)
	})
}
