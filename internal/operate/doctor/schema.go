package doctor

import (
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
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

func checkTriggers(bad []operate.Defect) Finding {
	if len(bad) > 0 {
		return Finding{"triggers", Problem, shortDefects(bad),
			"Rows are not validated or announced, slots are not released, or TRUNCATE is not refused. Items wait for the " +
				"full check, which each replica makes once a minute.",
			"Enable it: `alter table pgdispatch.... enable trigger ...`. Recreate a missing trigger: `delete from " +
				"pgdispatch.applied_functions where name = 'triggers'`, then `pgdispatch migrate up`."}
	}
	return ok("triggers", "all present and enabled")
}

func checkTables(bad []operate.Defect) Finding {
	if len(bad) > 0 {
		return Finding{"tables", Warning, shortDefects(bad),
			"Vacuum runs too rarely for a frequently updated table: the table grows, and queries slow down.",
			"Restore the settings: `alter table pgdispatch.... set (...)`, and `reset (autovacuum_enabled)` if autovacuum " +
				"is off."}
	}
	return ok("tables", "vacuum settings are as set by the migrations")
}

func shortDefects(defects []operate.Defect) string {
	list := make([]string, len(defects))
	for n, d := range defects {
		list[n] = d.Name + ": " + d.Problem
	}
	return shortList(list)
}
