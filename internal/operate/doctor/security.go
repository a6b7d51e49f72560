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
		return Finding{check, Warning, fmt.Sprintf("the connection to %s is not verified, and PGDISPATCH_ALLOW_INSECURE_DATABASE allows that", view.Printable(host)),
			"Whoever is on the network between can read params and passwords, and change what is enqueued.", "Use sslmode=verify-full, unless you trust that network."}
	}
	return ok(check, "connections to the database stay on this machine, or TLS verifies them")
}

// refusedUnverified is the Finding for a connection that replicas refuse to make.
func refusedUnverified(check string, err error) Finding {
	return Finding{check, Problem, view.Printable(err.Error()), "No command connects this way, and no replica starts.", "Set up TLS or allow this, by the variables that are named above."}
}

// checkRole checks that the session's role can do what `run` does, and little more.
func checkRole(ctx context.Context, store *operate.Store) Finding {
	const check = "role"
	roles, err := store.Role(ctx)
	if err != nil || len(roles) == 0 {
		return Finding{check, Unknown, view.Printable(fmt.Sprint(err)), "What the role may do could not be found out.", "Run doctor as the role that `pgdispatch run` has."}
	}
	r := roles[0]
	name := view.Printable(r.Name)
	const own = "create role app_dispatcher login password '...'; grant pgdispatch_dispatcher to app_dispatcher;"
	switch {
	case !r.GroupsExist:
		return Finding{check, Warning, "there are not all of the roles pgdispatch_owner, _dispatcher, _enqueuer, _operator and _reader", "Only the schema's owner and superusers can use it, so every program has the right to drop it.",
			"Run `pgdispatch migrate up` as a role that may create roles: it makes them, and says so where it cannot."}
	case len(r.Lacks) > 0:
		return Finding{check, Problem, fmt.Sprintf("role %s lacks what `run` needs: %s", name, shortList(r.Lacks)), "A replica that has this role fails as soon as it needs that.",
			"`grant pgdispatch_dispatcher to " + name + "`; doctor for another purpose than `run` may ignore this."}
	case r.Superuser:
		return Finding{check, Warning, "role " + name + " is a superuser", "Whoever takes over a replica has the whole server.", "Run replicas as a role of their own: " + own}
	case r.Owner:
		return Finding{check, Warning, "role " + name + " owns the schema", "Whoever takes over a replica can change definitions, limits and code in the database.", "Run replicas as a role of their own: " + own}
	case r.Operator:
		return Finding{check, Warning, "role " + name + " is an operator too", "Whoever takes over a replica can change settings, plans and limits.", "Run replicas as a role of their own: " + own}
	}
	return ok(check, "%s may do what `run` needs, and owns nothing", name)
}
