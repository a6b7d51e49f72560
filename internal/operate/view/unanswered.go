package view

import (
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// unansweredAfter is how long a start may be unanswered before it becomes a concern. A replica asks again within
// seconds.
const unansweredAfter = 30 * time.Second

// Unanswered describes unanswered starts: how many, and for how long the first of them.
func Unanswered(items int64, oldest *time.Duration) string {
	if items == 0 || oldest == nil {
		return Number(items)
	}
	return fmt.Sprintf("%s for %s", Number(items), Span(*oldest))
}

// unansweredConcern describes starts that Temporal has not answered for long. It is empty if there are none.
func unansweredConcern(d operate.Depth) string {
	if d.OldestUnanswered == nil || *d.OldestUnanswered < unansweredAfter {
		return ""
	}
	return fmt.Sprintf("%s unanswered for %s. %s of a workspace until Temporal answers.",
		Number(d.Unanswered)+plural(d.Unanswered, " start is", " starts are"), Span(*d.OldestUnanswered),
		plural(d.Unanswered, "It holds a slot", "They hold slots"))
}
