package doctor

import (
	"fmt"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// checkSignals judges the signals of the only depth.
func checkSignals(depths []operate.Depth) Finding {
	const check = "signals"
	d := depths[0]
	if d.OldestSignal != nil && *d.OldestSignal > view.LateSignal {
		return Finding{check, Warning,
			fmt.Sprintf("%s undelivered, the oldest for %s", view.Count(d.Signals), view.SpanOf(d.OldestSignal)),
			"Temporal refuses a signal or does not answer, or no replica delivers signals: those of an earlier version do " +
				"not. Later signals to the same workflow wait for it.",
			"See the errors: `pgdispatch executions signals --state open`. Upgrade replicas of an earlier version."}
	}
	return ok(check, "%s undelivered, none of them late", view.Count(d.Signals))
}
