package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// checkEncryption checks an established connection. An unverified one was explicitly allowed.
func checkEncryption(connConfig *pgx.ConnConfig) Finding {
	const check = "encryption"
	if host := postgres.UnverifiedHost(connConfig); host != "" {
		return Finding{check, Warning,
			fmt.Sprintf("the connection to %s is not verified, as PGDISPATCH_ALLOW_INSECURE_DATABASE allows",
				view.Printable(host)),
			"Others on the network can read params and passwords, and change queued items.",
			"Use sslmode=verify-full, unless you trust that network."}
	}
	return ok(check, "connections to the database stay on this machine or use verified TLS")
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
