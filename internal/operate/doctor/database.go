package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// checkEncryption checks an established connection. An unverified one was explicitly allowed.
func checkEncryption(connConfig *pgx.ConnConfig) Finding {
	host := postgres.UnverifiedHost(connConfig)
	return judged(host != "", Finding{"encryption", Warning, "the connection to " + view.Printable(host) +
		" is not verified, as PGDISPATCH_ALLOW_INSECURE_DATABASE allows",
		"Others on the network can read params and passwords, and change queued items.",
		"Use sslmode=verify-full, unless you trust that network."},
		"connections to the database stay on this machine or use verified TLS")
}

// refusedUnverified is the Finding for a connection that replicas refuse to make.
func refusedUnverified(check string, err error) Finding {
	return Finding{check, Problem, view.Printable(err.Error()), "Commands do not connect, and replicas do not start.",
		"Set up TLS, or allow the connection with the variable named above."}
}

// checkRole checks that the session's role can do what `run` does, and little more.
func checkRole(ctx context.Context, store *operate.Store) Finding {
	const check = "role"
	roles, err := store.Role(ctx)
	if err != nil || len(roles) == 0 {
		return Finding{check, Unknown, view.Printable(fmt.Sprint(err)), "The role's privileges could not be determined.",
			"Run doctor with the role of `pgdispatch run`."}
	}
	r := roles[0]
	name := view.Printable(r.Name)
	const own = "create role app_dispatcher login password '...'; grant pgdispatch_dispatcher to app_dispatcher;"
	switch {
	case !r.GroupsExist:
		return Finding{check, Warning,
			"some of the roles pgdispatch_owner, _dispatcher, _enqueuer, _operator and _reader do not exist",
			"Only the schema's owner and superusers can use it, so every program could drop it.",
			"Run `pgdispatch migrate up` as a role that may create roles; it creates them, or warns if it cannot."}
	case len(r.Lacks) > 0:
		return Finding{check, Problem, fmt.Sprintf("role %s lacks privileges that `run` needs: %s", name, shortList(r.Lacks)),
			"A replica with this role fails when it needs them.",
			"`grant pgdispatch_dispatcher to " + name + "`. Ignore this for roles that are not used for `run`."}
	case r.Superuser:
		return Finding{check, Warning, "role " + name + " is a superuser",
			"A compromised replica gives control of the whole server.", "Run replicas as a separate role: " + own}
	case r.Owner:
		return Finding{check, Warning, "role " + name + " owns the schema",
			"A compromised replica can change definitions, limits and code in the database.",
			"Run replicas as a separate role: " + own}
	case r.Operator:
		return Finding{check, Warning, "role " + name + " is also an operator",
			"A compromised replica can change settings, plans and limits.", "Run replicas as a separate role: " + own}
	}
	return ok(check, "%s has the privileges that `run` needs, and owns nothing", name)
}

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

// slowVacuum is what lost storage settings do.
const slowVacuum = "Vacuum runs too rarely for a frequently updated table: the table grows, and queries slow down."

// checkObjects judges what is missing or wrong in the schema.
func checkObjects(defects []operate.SchemaDefect) Finding {
	const check = "schema objects"
	if len(defects) == 0 {
		return ok(check, "all tables, columns, constraints, indexes, triggers and functions are as this version needs")
	}
	severity, restored := Warning, false
	var list, harm, commands []string
	for _, o := range defects {
		list = append(list, view.Printable(o.Kind+" "+o.Name)+" is "+o.Problem)
		means, byHand := judgeObject(o)
		if !slices.Contains(harm, means) {
			harm = append(harm, means)
		}
		if means != slowVacuum {
			severity = Problem
		}
		restored = restored || byHand == nil
		commands = append(commands, byHand...)
	}
	var remedies []string
	if restored {
		remedies = append(remedies, "Run `pgdispatch migrate up`, which makes missing indexes, triggers and functions anew, "+
			"and restores defaults.")
	}
	if len(commands) > 0 {
		remedies = append(remedies, "Repair by hand: "+shortList(commands)+".")
	}
	return Finding{check, severity, shortList(list), strings.Join(harm, " "), strings.Join(remedies, " ")}
}

func checkSequences(behind []operate.Behind) Finding {
	var list []string
	for _, s := range behind {
		list = append(list, s.Name)
	}
	return judged(len(behind) > 0, Finding{"sequences", Problem, "sequences are behind their tables: " + shortList(list),
		"A logical copy has no values of sequences. Inserts fail with 23505, or a lost lease may be taken for a valid one.",
		"Run `pgdispatch migrate up` before anything uses the database, which sets them past their tables."},
		"all sequences are past their tables")
}

// judgeObject says what a defect does, and how to repair it if `migrate up` does not.
func judgeObject(o operate.SchemaDefect) (harm string, byHand []string) {
	const (
		broken       = "Statements fail, or rules do not hold."
		lostInACrash = "It is lost, or kept, in a crash or a failover, where it must not be: then inserts may fail."
	)
	table, name, _ := strings.Cut(o.Name, ".")
	alter := "alter table pgdispatch." + table
	switch o.Kind {
	case "function":
		return broken, nil
	case "trigger":
		return "Rows are not validated or announced, slots are not released, or TRUNCATE is not refused. Items wait for " +
			"the full check, which each replica makes once a minute.", nil
	case "index":
		if o.Repair() == nil {
			byHand = []string{"drop index concurrently if exists pgdispatch." + o.Name,
				strings.Replace(o.Definition, "INDEX ", "INDEX CONCURRENTLY ", 1)}
		}
		return "Claims and lists may be slow, or a key may be used twice.", byHand
	case "column":
		if o.Repair() != nil {
			return broken, nil
		}
	case "constraint":
		switch o.Problem {
		case "not valid":
			return broken, []string{alter + " validate constraint " + name}
		case "altered":
			return broken, []string{alter + " drop constraint " + name + ", add constraint " + name + " " + o.Definition}
		}
		return broken, []string{alter + " add constraint " + name + " " + o.Definition}
	case "setting":
		return slowVacuum, []string{alter + " set (" + name + " = " + o.Definition + ")"}
	case "table":
		switch o.Problem {
		case "without autovacuum":
			return slowVacuum, []string{alter + " reset (autovacuum_enabled)"}
		case "altered":
			return lostInACrash, []string{alter + " set " + cmp.Or(o.Definition, "logged")}
		}
	case "sequence":
		if o.Problem == "unlogged" {
			return lostInACrash, []string{"alter sequence pgdispatch." + o.Name + " set logged"}
		}
	}
	return broken, []string{strings.TrimSpace("restore " + o.Kind + " " + o.Name + " " + o.Definition)}
}
