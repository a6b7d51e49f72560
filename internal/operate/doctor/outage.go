package doctor

import (
	"fmt"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// checkOutage says what the replicas say of Temporal and the codec server, and whether they use the same.
func checkOutage(replicas []operate.Replica) Finding {
	const check = "outage"
	codecs := map[string]int{}
	for _, r := range replicas {
		codecs[r.State.Codec]++
	}
	seen := operate.Overview{Replicas: replicas, Depth: operate.Depth{MaxClaims: 1}}
	switch outage := view.OutageOf(seen); {
	case len(replicas) == 0:
		return ok(check, "no replica reports one")
	case outage != nil:
		return Finding{check, Problem, outage.What + " " + outage.Begun(), "Items wait.",
			"See the checks of Temporal and of the codec server here, and the replicas' logs."}
	case len(codecs) > 1:
		return Finding{check, Problem, fmt.Sprintf("the replicas use %d different codec endpoints", len(codecs)),
			"Workers may not decode what some replicas send.", "Set the same PGDISPATCH_CODEC_ENDPOINT for all replicas."}
	}
	return ok(check, "no replica reports one")
}
