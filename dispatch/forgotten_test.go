package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestForgottenItemIsLookedForBeforeItIsParked(t *testing.T) {
	for name, c := range map[string]struct {
		there bool
		verb  claim.Verb
	}{
		"still there": {true, claim.Dispatched},
		"gone":        {false, claim.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, d *desk) {
				d.onStart = func(context.Context, claim.Item) (string, error) {
					return "", temporal.As(engine.Forgotten, temporal.ErrForgotten)
				}
				d.onFind = func(context.Context, claim.Item) (string, bool, error) { return "run-there", c.there, nil }
				d.onClaim = func(int) (claim.Batch, error) {
					batch := claim.Batch{LookAgainIn: -1}
					if len(d.claimTimes()) == 1 {
						item := claim.Item{ID: 1, Unanswered: true, MaxAttempts: 3, Deadline: time.Now().Add(d.Lease)}
						batch.Items = []claim.Item{item}
					}
					return batch, nil
				}
				stop := d.run()
				synctest.Wait()
				require.Equal(t, []claim.Verb{c.verb}, d.verbs())
				stop()
			})
		})
	}
}
