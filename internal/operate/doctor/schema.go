package doctor

import (
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

func checkSchema(s migrate.State) Finding {
	const check = "migrations"
	switch {
	case s.BeforeBaseline > 0:
		return Finding{check, Problem, fmt.Sprintf("the schema has version %d, from before the baseline", s.BeforeBaseline),
			"A replica of this version does not start, and the schema cannot be upgraded.",
			"Export what you need, `drop schema pgdispatch cascade`, and `pgdispatch migrate up`."}
	case s.Current == 0:
		return Finding{check, Problem, "schema pgdispatch does not exist", "Items cannot be enqueued.",
			"Run `pgdispatch migrate up`."}
	case s.Current < s.Newest:
		return Finding{check, Problem,
			fmt.Sprintf("the schema is at version %d, this pgdispatch needs %d", s.Current, s.Newest),
			"A replica of this version does not start.", "Run `pgdispatch migrate up`."}
	case s.Current > s.Newest:
		return Finding{check, Warning,
			fmt.Sprintf("the schema is at version %d, this pgdispatch supports up to %d", s.Current, s.Newest),
			"A newer pgdispatch has migrated the schema; this version may stop working with it.",
			"Upgrade pgdispatch on this machine."}
	case len(s.Outdated) > 0:
		return Finding{check, Warning,
			fmt.Sprintf("version %d, but functions differ from this pgdispatch's: %s", s.Current,
				strings.Join(s.Outdated, ", ")),
			"Replicas use the functions of another version of pgdispatch.",
			"If this pgdispatch is the newer version, run `pgdispatch migrate up`."}
	}
	return ok(check, "version %d, up to date", s.Current)
}
