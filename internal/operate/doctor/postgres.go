package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
)

const (
	// longPin is how long a transaction may be open before doctor reports it.
	longPin = 5 * time.Minute
	// manyBehind is how many transactions a standby or an active replication slot may be behind: their age in time is
	// unknown.
	manyBehind = 1_000_000
	// doctorHearTimeout limits the wait for doctor's own notification.
	doctorHearTimeout = 3 * time.Second
	// clockTolerance is the accepted difference between two NTP-synchronized clocks.
	clockTolerance = 2 * time.Second
	// longestStatement is the longest statement timeout of a replica, that of a claim.
	longestStatement = 10 * time.Second

	versionCheck = "postgres version"
	// newestPostgres is the newest version that the tests run on: make test-matrix.
	newestPostgres = 18
)

func checkServer(s operate.Server) []Finding {
	unsafe, idle := settingsAt(s, "off", "fsync", "full_page_writes"), settingsAt(s, "off", "autovacuum", "track_counts")
	return []Finding{
		judged(s.Version/10000 > newestPostgres, Finding{versionCheck, Warning, s.VersionText,
			"pgdispatch is not tested with this version.", fmt.Sprintf("Use Postgres %d, or test it first.", newestPostgres)},
			"%s", s.VersionText),
		judged(s.Encoding != "UTF8", wrongEncoding(s.Encoding), "UTF8"),
		judged(len(unsafe) > 0, Finding{"durability", Problem, strings.Join(unsafe, " and ") + " off",
			"A crash of the machine can corrupt the database, or undo claims whose workflows run, so that limits are exceeded.",
			"Set " + strings.Join(unsafe, " and ") + " to on in postgresql.conf, and reload."},
			"fsync and full_page_writes are on"),
		// The default for clients that enqueue. Replicas set their own.
		judged(s.Settings["synchronous_commit"] == "off", Finding{"synchronous_commit", Warning,
			"synchronous_commit is off by default", "A crash of Postgres can lose items that applications have committed.",
			"Leave synchronous_commit on for roles that enqueue. Replicas disable it where that is safe."},
			"%s by default", s.Settings["synchronous_commit"]),
		judged(len(idle) > 0, Finding{"autovacuum", Problem, strings.Join(idle, " and ") + " off",
			"Dead rows are never removed: tables grow, and queries slow down.",
			"Set " + strings.Join(idle, " and ") + " to on, and reload."}, "on"),
		checkTimeouts(s), checkSession(s),
		checkConnections(s),
		checkNotifyQueue(s),
	}
}

// checkConnections checks that there is room for one more replica in each of the limits.
func checkConnections(s operate.Server) Finding {
	list, short := []string{}, false
	limit := func(of string, allowed *int, used int64) {
		if allowed != nil {
			list = append(list, fmt.Sprintf("%d of %d are in use%s", used, *allowed, of))
			short = short || int64(*allowed)-used < config.Connections
		}
	}
	limit("", &s.ConnectionsAllowed, s.Connections)
	limit(" by role "+view.Printable(s.Role), s.RoleAllowed, s.RoleConnections)
	limit(" in the database", s.DatabaseAllowed, s.DatabaseConnections)
	return judged(short, Finding{"connections", Warning, strings.Join(list, "; "),
		fmt.Sprintf("A replica opens up to %d. Without a connection it claims nothing, and logs an error.",
			config.Connections), "Raise max_connections or the role's or the database's connection limit, or connect " +
			"applications through a pooler."}, "%s", strings.Join(list, "; "))
}

// checkRowSecurity checks that a replica would see every row.
func checkRowSecurity(found []operate.Fitness) Finding {
	f := found[0]
	return judged(len(f.Hidden) > 0, Finding{"row security", Problem, fmt.Sprintf(
		"row level security may hide rows from role %s: %s", view.Printable(f.Role), shortList(f.Hidden)),
		"A replica with this role does not start, because it could neither count nor find what it does not see.",
		"On each table, `create policy replicas on pgdispatch... to pgdispatch_dispatcher using (true)`, or " +
			"`alter table ... disable row level security`. Ignore this for roles that are not used for `run`."},
		"role %s sees every row", view.Printable(f.Role))
}

// checkInstallation checks that the database is the one that replicas last used.
func checkInstallation(found []operate.Fitness) Finding {
	f, since := found[0], "no replica has used it yet"
	if f.BoundAt != nil {
		since = "used by replicas since " + f.BoundAt.UTC().Format(time.DateTime)
	}
	return judged(f.Copied, Finding{"installation", Problem,
		fmt.Sprintf("this database is a copy of %s, or was moved, since a replica last used it", view.Printable(f.BoundTo)),
		"Replicas wait, so that a copy does not start the workflows of the original.",
		"If no replica uses the other database any more, run `pgdispatch migrate adopt`."}, "%s", since)
}

func wrongEncoding(encoding string) Finding {
	return Finding{"encoding", Problem, "the database's encoding is " + view.Printable(encoding),
		"Errors, names and params with other characters cannot be stored. Commands and replicas refuse the database.",
		"Recreate the database with `encoding 'UTF8' template template0`, and restore a backup."}
}

func checkOverrides(overrides []operate.Override) Finding {
	if len(overrides) == 0 {
		return ok("settings of roles", "no harmful settings")
	}
	list := make([]string, len(overrides))
	level := Warning
	for n, o := range overrides {
		if list[n] = fmt.Sprintf("%s in %s: %s", o.Role, o.Scope, o.Setting); strings.HasPrefix(o.Setting,
			"session_replication_role") {
			level = Problem
		}
	}
	return Finding{"settings of roles", level, shortList(list),
		"If synchronous_commit is off, a crash of Postgres can lose items that the role has enqueued. If " +
			"session_replication_role is replica, inserts are not validated and wake no replica.",
		"`alter role ... in database ... reset ...` for roles that enqueue."}
}

// checkTimeouts checks for timeouts that would cut off a replica's statements and sessions.
func checkTimeouts(s operate.Server) Finding {
	short := []string{}
	for name, least := range map[string]time.Duration{"statement_timeout": longestStatement,
		"transaction_timeout": longestStatement, "lock_timeout": 10 * time.Second,
		"idle_session_timeout": 100 * 365 * 24 * time.Hour} {
		if ms, err := strconv.ParseInt(s.Settings[name], 10, 64); err == nil && ms > 0 &&
			time.Duration(ms)*time.Millisecond < least {
			short = append(short, fmt.Sprintf("%s is %s", name, time.Duration(ms)*time.Millisecond))
		}
	}
	slices.Sort(short)
	if len(short) > 0 {
		return Finding{"timeouts", Warning, "role " + view.Printable(s.Role) + ": " + shortList(short),
			"A claim may wait up to 10s for other claims, and the listener's session is idle most of the time. Aborted " +
				"statements are retried, and wake-ups are late in the meantime.",
			"`alter role ... set ... = 0` for the role of pgdispatch, which sets its own timeout for every statement."}
	}
	return ok("timeouts", "role %s has no timeouts that would abort a replica's statements", view.Printable(s.Role))
}

func checkSession(s operate.Server) Finding {
	switch {
	case s.Settings["default_transaction_read_only"] == "on":
		return Finding{"transactions", Problem, "default_transaction_read_only is on",
			"Items cannot be enqueued, claimed or settled.",
			"Connect to the primary, or reset the setting for the role or the database."}
	case s.Settings["session_replication_role"] == "replica":
		return Finding{"transactions", Problem, "session_replication_role is replica",
			"Triggers do not fire: invalid rows are accepted, limits are not enforced, and no replica is woken.",
			"Reset the setting for the role or the database."}
	}
	return ok("transactions", "read-write, and triggers fire")
}

func checkNotifyQueue(s operate.Server) Finding {
	text := fmt.Sprintf("%.0f %% full", s.NotifyUsage*100)
	if s.NotifyUsage < notify.QueueBound {
		return ok("notification queue", "%s", text)
	}
	level := Warning
	if s.NotifyUsage > 0.5 {
		level = Problem
	}
	remedy := "As an administrator, terminate the session that this shows first: `" + notify.FindHolder + "`."
	if s.NotifyHolder != nil {
		remedy = "Terminate it: " + s.NotifyHolder.String() + "."
	}
	return Finding{"notification queue", level, text,
		"A listening session has been in one transaction, or suspended, for a long time. Until it ends, enqueueing does " +
			"not notify and items wait for polls. Once the queue is full, commits of other applications that notify fail.",
		remedy}
}

func checkClock(offset, trip time.Duration) Finding {
	differs := fmt.Sprintf("the database's clock differs by %s from this machine's", offset.Round(time.Millisecond))
	return judged(offset.Abs() > clockTolerance+trip, Finding{"clocks", Warning, differs,
		"pgdispatch itself is not affected. But a run_at computed by an application refers to a different time, and " +
			"timestamps in logs differ.",
		"Synchronize the clocks of both machines with NTP."},
		"%s, measured to within %s", differs, trip.Round(time.Millisecond))
}

func checkPins(pins []operate.Pin, seesAll bool) Finding {
	const check, meaning = "vacuum horizon",
		"Vacuum cannot remove rows that died since then, in the whole database: tables grow, and everything except claims " +
			"slows down."
	if len(pins) == 0 && !seesAll {
		return Finding{check, Unknown, "the role cannot see other roles' transactions", meaning,
			"Grant pg_monitor to the role that runs doctor: `grant pg_monitor to ...`."}
	}
	if len(pins) == 0 {
		return ok(check, "no transaction or prepared transaction is older than %s, and no replication slot or standby holds "+
			"it back", longPin)
	}
	list, remedies := make([]string, len(pins)), map[string]bool{}
	for n, p := range pins {
		age := "for an unknown time"
		if p.Age != nil {
			age = "for " + view.Shortly(*p.Age)
		}
		list[n] = fmt.Sprintf("%s %s (%s), %s", p.Kind, view.Printable(p.Name), view.Printable(p.Detail), age)
		remedies[p.Kind] = true
	}
	remedy := []string{}
	for _, r := range []struct{ kind, text string }{
		{"session", "Terminate the session: `select pg_terminate_backend(pid)`."},
		{"prepared transaction", "A prepared transaction also holds its locks: `commit prepared` or `rollback prepared` it."},
		{"replication slot", "Start the slot's consumer, or drop the slot: `select pg_drop_replication_slot(...)`."},
		{"standby", "End the long query on the standby, or disable hot_standby_feedback there."},
	} {
		if remedies[r.kind] {
			remedy = append(remedy, r.text)
		}
	}
	return Finding{check, Warning, shortList(list), meaning, strings.Join(remedy, " ")}
}

// checkPrimaries checks that at most one of the hosts of DATABASE_URL accepts writes.
func checkPrimaries(accept []string, err error) Finding {
	const check = "primaries"
	if err != nil {
		return Finding{check, Unknown, postgres.Redact(err).Error(), "The hosts of DATABASE_URL cannot be tried.",
			"Correct DATABASE_URL."}
	}
	hosts := strings.Join(accept, " and ")
	return judged(len(accept) > 1, Finding{check, Problem, "writes are accepted by " + hosts,
		"Replicas and applications may use different databases. What is written to all but one will be lost.",
		"Stop the former primary, and rewind it. Connect through a proxy that checks who is primary, such as HAProxy, " +
			"which can ask Patroni."}, "writes are accepted by one host of DATABASE_URL")
}

// checkListen sends a notification and waits for it, as a replica's listener would.
func checkListen(ctx context.Context, c config.Config, store *operate.Store) Finding {
	const check = "listen"
	if !c.Listen {
		return ok(check, "disabled by PGDISPATCH_LISTEN; replicas poll")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorHearTimeout+postgres.ConnectTimeout)
	defer cancel()
	listener, err := c.Database.Connect(ctx, postgres.ListenerSettings(), nil)
	if postgres.RefusesSettings(err) {
		return deaf("the server rejects session settings: " + postgres.Redact(err).Error())
	}
	if err != nil {
		return Finding{check, Unknown, postgres.Redact(err).Error(),
			"A replica needs another connection for LISTEN, which failed.", "Check that the role may open more connections."}
	}
	defer listener.Close(context.WithoutCancel(ctx)) //nolint:errcheck
	hearing, stop := context.WithTimeout(ctx, doctorHearTimeout)
	defer stop()
	session, took, err := store.Hear(hearing, listener, rand.Text())
	switch {
	case err != nil && hearing.Err() != nil:
		return deaf(fmt.Sprintf("no notification arrived within %s", doctorHearTimeout))
	case err != nil:
		return Finding{check, Unknown, postgres.Redact(err).Error(), "The check could not determine whether LISTEN works.",
			"Try again."}
	case session.OverTCP && session.TCPUserTimeout == 0:
		return Finding{check, Warning, "a notification arrived, but tcp_user_timeout is not in effect",
			"A replica that is suspended while it listens holds back vacuum and fills the notification queue until it is " +
				"terminated.",
			"Run Postgres on a system with TCP_USER_TIMEOUT, such as Linux, and connect without a proxy that drops the setting."}
	}
	return ok(check, "a notification arrived after %s", took.Round(100*time.Microsecond))
}

func deaf(what string) Finding {
	return Finding{"listen", Problem, what,
		"A transaction pooler such as PgBouncer is in between and does not support LISTEN: items wait for the next poll.",
		"Give replicas a direct connection, or set PGDISPATCH_LISTEN=off and a short PGDISPATCH_POLL_INTERVAL."}
}

func checkReplicas(replicas []operate.KnownReplica) Finding {
	const check = "replicas"
	live, dead, namespaces := 0, []string{}, []string{}
	for _, r := range replicas {
		if r.DeadFor < 0 {
			live++
			if r.Namespace != "" && !slices.Contains(namespaces, r.Namespace) {
				namespaces = append(namespaces, r.Namespace)
			}
			continue
		}
		dead = append(dead, fmt.Sprintf("%s died %s ago", view.Printable(r.ID), view.Shortly(r.DeadFor)))
		if r.Leased+r.Watching > 0 {
			dead[len(dead)-1] += fmt.Sprintf(" and holds %d items and %d watches", r.Leased, r.Watching)
		}
	}
	switch {
	case live == 0:
		return Finding{check, Warning, shortList(append([]string{"no replica runs"}, dead...)),
			"Items wait, and ends of workflows are not recorded.", "Start one: `pgdispatch run`."}
	case len(namespaces) > 1:
		return Finding{check, Problem, "replicas use different namespaces: " + shortList(namespaces),
			"An item whose definition has no namespace is started in the namespace of the replica that claims it first.",
			"Set the same TEMPORAL_NAMESPACE for all replicas, and " +
				"set workflow_definitions.namespace for definitions that belong elsewhere."}
	case len(dead) > 0:
		return Finding{check, Warning, fmt.Sprintf("%d run; %s", live, shortList(dead)),
			"The replica was killed. Others take over its items and watches when its leases expire; its row is deleted " +
				"after a day.", "Find the reason in its log or its machine's log."}
	}
	return ok(check, "%d run", live)
}

func checkDefinitions(queues []operate.TaskQueue) Finding {
	without, all, names := int64(0), int64(0), map[[2]string]bool{}
	for _, q := range queues {
		without, all = without+q.WithoutVersion, all+q.Definitions
		names[[2]string{q.Namespace, q.Name}] = true
	}
	return judged(without > 0, Finding{"definitions", Warning, fmt.Sprintf("%d of %d have no version", without, all),
		"Items enqueued for them fail.", "Add a version of each to pgdispatch.workflow_definition_versions."},
		"%d, on %d task queues", all, len(names))
}

func settingsAt(s operate.Server, value string, names ...string) []string {
	found := []string{}
	for _, name := range names {
		if s.Settings[name] == value {
			found = append(found, name)
		}
	}
	return found
}

// shortList joins the first few entries of a list.
func shortList(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], "; ") + fmt.Sprintf("; and %d more", len(list)-most)
	}
	return strings.Join(list, "; ")
}
