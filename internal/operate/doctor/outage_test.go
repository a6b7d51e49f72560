package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestDoctorSaysSinceWhenAndWhyNothingIsStarted(t *testing.T) {
	t.Parallel()
	state := operate.ReplicaState{Codec: "0a", BreakerOpen: true, BreakerSince: new(time.Unix(0, 0)),
		BreakerCause: "probe timed out after 3s"}
	away := state
	away.CodecAway, away.BreakerCause = true, "codec server http://codec: refused"
	for want, states := range map[string][]operate.ReplicaState{
		"Temporal accepts no workflows from any replica (probe timed out after 3s): starts are paused, and the replicas " +
			"probe. Since 1970-01-01 00:00:00 UTC.": {state},
		"The codec server does not answer any replica, so nothing is sent to Temporal (codec server http://codec: " +
			"refused): starts are paused, and the replicas probe. Since 1970-01-01 00:00:00 UTC.": {away},
		"the replicas use 2 different codec endpoints": {{Codec: "0a"}, {}},
		"no replica reports one":                       {{Codec: "0a"}, {Codec: "0a"}},
	} {
		replicas := []operate.Replica{}
		for _, s := range states {
			replicas = append(replicas, operate.Replica{State: s})
		}
		require.Equal(t, want, checkOutage(replicas).Finding)
	}
}
