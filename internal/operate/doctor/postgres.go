package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

const (
	// longPin is how long a transaction may be open before doctor reports it.
	longPin = 5 * time.Minute
	// doctorHearTimeout limits the wait for doctor's own notification.
	doctorHearTimeout = 3 * time.Second
	// clockTolerance is the accepted difference between two NTP-synchronized clocks.
	clockTolerance = 2 * time.Second
	// longestStatement is the longest statement timeout of a replica, that of a claim.
	longestStatement = 10 * time.Second

	// Range of Postgres versions that the tests run on: make test-matrix.
	oldestPostgres, newestPostgres = 14, 18
)

func checkServer(s operate.Server) []Finding {
	return []Finding{checkVersion(s), checkEncoding(s), checkDurability(s), checkCommits(s), checkAutovacuum(s),
		checkTimeouts(s), checkSession(s), checkConnections(s), checkNotifyQueue(s)}
}

func checkVersion(s operate.Server) Finding {
	const check = "postgres version"
	switch major := s.Version / 10000; {
	case major < oldestPostgres:
		return Finding{check, Problem, s.VersionText, "pgdispatch uses what this version has not.",
			fmt.Sprintf("Upgrade Postgres: %d to %d are supported.", oldestPostgres, newestPostgres)}
	case major > newestPostgres:
		return Finding{check, Warning, s.VersionText, "pgdispatch's tests are not run on this version.",
			fmt.Sprintf("Use Postgres %d to %d, or try it out first.", oldestPostgres, newestPostgres)}
	}
	return ok(check, "%s", s.VersionText)
}

func checkEncoding(s operate.Server) Finding {
	if s.Encoding != "UTF8" {
		return Finding{"encoding", Problem, "the database's encoding is " + s.Encoding, "Errors and names with other characters cannot be stored, and an item whose error cannot be stored cannot be failed.",
			"Create the database anew with `encoding 'UTF8' template template0`, and restore into it."}
	}
	return ok("encoding", "UTF8")
}

func checkDurability(s operate.Server) Finding {
	off := settingsAt(s, "off", "fsync", "full_page_writes")
	if len(off) > 0 {
		return Finding{"durability", Problem, strings.Join(off, " and ") + " off", "A crash of the machine can corrupt the database, or undo claims whose workflows run: limits do not hold then.",
			"Set " + strings.Join(off, " and ") + " to on in postgresql.conf, and reload."}
	}
	return ok("durability", "fsync and full_page_writes are on")
}

// checkCommits checks the default for clients that enqueue. Replicas set their own.
func checkCommits(s operate.Server) Finding {
	if s.Settings["synchronous_commit"] == "off" {
		return Finding{"synchronous_commit", Warning, "synchronous_commit is off by default", "An application that enqueues by this default can be told that its item is committed, and lose it in a crash of Postgres.",
			"Leave synchronous_commit on for roles that enqueue; replicas switch it off by themselves where it does no harm."}
	}
	return ok("synchronous_commit", "%s by default", s.Settings["synchronous_commit"])
}

func checkOverrides(overrides []operate.Override) Finding {
	if len(overrides) == 0 {
		return ok("settings of roles", "none that would harm")
	}
	list := make([]string, len(overrides))
	level := Warning
	for n, o := range overrides {
		if list[n] = fmt.Sprintf("%s in %s: %s", o.Role, o.Scope, o.Setting); strings.HasPrefix(o.Setting, "session_replication_role") {
			level = Problem
		}
	}
	return Finding{"settings of roles", level, shortList(list), "What a role with synchronous_commit off enqueues can be lost in a crash of Postgres. Where session_replication_role is replica, its inserts are not checked and wake nobody.",
		"`alter role ... in database ... reset ...` for roles that enqueue."}
}

func checkAutovacuum(s operate.Server) Finding {
	if off := settingsAt(s, "off", "autovacuum", "track_counts"); len(off) > 0 {
		return Finding{"autovacuum", Problem, strings.Join(off, " and ") + " off", "Dead rows are never removed: the tables grow, and everything becomes slower.", "Set " + strings.Join(off, " and ") + " to on, and reload."}
	}
	return ok("autovacuum", "on")
}

// checkTimeouts checks for timeouts that would cut off a replica's statements and sessions.
func checkTimeouts(s operate.Server) Finding {
	short := []string{}
	for name, least := range map[string]time.Duration{"statement_timeout": longestStatement, "transaction_timeout": longestStatement, "lock_timeout": 10 * time.Second, "idle_session_timeout": 100 * 365 * 24 * time.Hour} {
		if ms, err := strconv.ParseInt(s.Settings[name], 10, 64); err == nil && ms > 0 && time.Duration(ms)*time.Millisecond < least {
			short = append(short, fmt.Sprintf("%s is %s", name, time.Duration(ms)*time.Millisecond))
		}
	}
	slices.Sort(short)
	if len(short) > 0 {
		return Finding{"timeouts", Warning, "role " + view.Printable(s.Role) + ": " + shortList(short), "A claim may wait 10s for others, and the listener's session is idle most of the time. What is cut off is tried again, and wake-ups come late meanwhile.",
			"`alter role ... set ... = 0` for the role of pgdispatch: it has timeouts of its own for every statement."}
	}
	return ok("timeouts", "role %s has none that would cut off a replica", view.Printable(s.Role))
}

func checkSession(s operate.Server) Finding {
	switch {
	case s.Settings["default_transaction_read_only"] == "on":
		return Finding{"transactions", Problem, "default_transaction_read_only is on", "Nothing can be enqueued, claimed or settled.", "Connect to the primary, or reset the setting for the role or the database."}
	case s.Settings["session_replication_role"] == "replica":
		return Finding{"transactions", Problem, "session_replication_role is replica", "No trigger fires: bad rows are not refused, limits are not counted, and nobody is woken.", "Reset the setting for the role or the database."}
	}
	return ok("transactions", "read and write, with triggers")
}

func checkConnections(s operate.Server) Finding {
	left := int64(s.ConnectionsAllowed) - s.Connections
	if left < config.Connections {
		return Finding{"connections", Warning, fmt.Sprintf("%d of %d are in use", s.Connections, s.ConnectionsAllowed), fmt.Sprintf("A replica takes up to %d. One that gets none claims nothing, and says so.", config.Connections),
			"Raise max_connections, or have applications share connections through a pooler."}
	}
	return ok("connections", "%d of %d are in use", s.Connections, s.ConnectionsAllowed)
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
	remedy := "End the session that `select * from pg_stat_activity order by xact_start` shows first."
	if s.NotifyHolder != nil {
		remedy = "End it, " + s.NotifyHolder.String() + "."
	}
	return Finding{"notification queue", level, text, "Some session listens and has been in one transaction, or stopped, for long. Enqueuers do not notify meanwhile, and items wait for polls; whoever else notifies fails at its commit once the queue is full.",
		remedy}
}

func checkClock(offset, trip time.Duration) Finding {
	const check = "clocks"
	if offset.Abs() > clockTolerance+trip {
		return Finding{check, Warning, fmt.Sprintf("the database's clock differs by %s from this machine's", offset.Round(time.Millisecond)), "pgdispatch compares no two clocks, and works. But a run_at that an application computes means another moment, and logs do not agree.",
			"Have both machines' clocks kept by NTP."}
	}
	return ok(check, "the database's and this machine's agree to within %s", (clockTolerance + trip).Round(time.Millisecond))
}

func checkPins(pins []operate.Pin, seesAll bool) Finding {
	const check, meaning = "vacuum horizon", "Vacuum can remove no row that died since then, anywhere in the database: tables grow, and everything but claims becomes slower."
	if len(pins) == 0 && !seesAll {
		return Finding{check, Unknown, "the role does not see other roles' transactions", meaning, "`grant pg_monitor to ...` the role that runs doctor."}
	}
	if len(pins) == 0 {
		return ok(check, "no transaction, prepared one or unused slot is older than %s", longPin)
	}
	list, remedies := make([]string, len(pins)), map[string]bool{}
	for n, p := range pins {
		age := "nobody knows for how long"
		if p.Age != nil {
			age = "for " + view.Shortly(*p.Age)
		}
		list[n] = fmt.Sprintf("%s %s (%s), %s", p.Kind, view.Printable(p.Name), view.Printable(p.Detail), age)
		remedies[p.Kind] = true
	}
	remedy := []string{}
	for _, r := range []struct{ kind, text string }{
		{"session", "End the session: `select pg_terminate_backend(pid)`."},
		{"prepared transaction", "A two-phase commit was left over, and holds its locks too: `commit prepared` or `rollback prepared` it."},
		{"replication slot", "Start its consumer, or `select pg_drop_replication_slot(...)`."},
	} {
		if remedies[r.kind] {
			remedy = append(remedy, r.text)
		}
	}
	return Finding{check, Warning, shortList(list), meaning, strings.Join(remedy, " ")}
}

// checkListen sends a notification and waits for it, as a replica's listener would.
func checkListen(ctx context.Context, c config.Config, store *operate.Store) Finding {
	const check = "listen"
	if !c.Listen {
		return ok(check, "switched off by PGDISPATCH_LISTEN: replicas poll")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorHearTimeout+postgres.ConnectTimeout)
	defer cancel()
	listener, err := c.Database.Connect(ctx, postgres.ListenerSettings(), nil)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "08P01" {
		return deaf("the server refuses a session's settings: " + postgres.Redact(err).Error())
	}
	if err != nil {
		return Finding{check, Unknown, postgres.Redact(err).Error(), "A replica needs another connection for LISTEN, and none could be made.", "See that the role may have more connections."}
	}
	defer listener.Close(context.WithoutCancel(ctx)) //nolint:errcheck
	hearing, stop := context.WithTimeout(ctx, doctorHearTimeout)
	defer stop()
	session, took, err := store.Hear(hearing, listener, rand.Text())
	switch {
	case err != nil && hearing.Err() != nil:
		return deaf(fmt.Sprintf("a notification was not heard within %s", doctorHearTimeout))
	case err != nil:
		return Finding{check, Unknown, postgres.Redact(err).Error(), "Whether LISTEN delivers could not be found out.", "Try again."}
	case session.OverTCP && session.TCPUserTimeout == 0:
		return Finding{check, Warning, "a notification was heard, but tcp_user_timeout is not in force", "A replica that is stopped while it listens pins the vacuum horizon and fills the queue of notifications until somebody ends it.",
			"Run Postgres on a system that has TCP_USER_TIMEOUT, such as Linux, or connect without a proxy that drops the setting."}
	}
	return ok(check, "a notification was heard after %s", took.Round(100*time.Microsecond))
}

func deaf(what string) Finding {
	return Finding{"listen", Problem, what, "There is a transaction pooler between, such as PgBouncer, through which LISTEN never delivers: rows wait for the next poll.",
		"Give replicas a direct connection, or set PGDISPATCH_LISTEN=off and a short PGDISPATCH_POLL_INTERVAL."}
}

func checkSchema(s migrate.State) Finding {
	const check = "migrations"
	switch {
	case s.BeforeBaseline > 0:
		return Finding{check, Problem, fmt.Sprintf("the schema is of version %d from before the baseline", s.BeforeBaseline), "A replica of this version does not start, and the schema cannot be upgraded.",
			"Export what you need, `drop schema pgdispatch cascade`, and `pgdispatch migrate up`."}
	case s.Current == 0:
		return Finding{check, Problem, "schema pgdispatch is not there", "Nothing can be enqueued.", "Run `pgdispatch migrate up`."}
	case s.Current < s.Newest:
		return Finding{check, Problem, fmt.Sprintf("the schema is at version %d, and this pgdispatch needs %d", s.Current, s.Newest), "A replica of this version does not start.", "Run `pgdispatch migrate up`."}
	case s.Current > s.Newest:
		return Finding{check, Warning, fmt.Sprintf("the schema is at version %d, and this pgdispatch knows %d", s.Current, s.Newest), "Somebody has migrated with a newer pgdispatch; this one may not work with it for long.", "Upgrade pgdispatch on this machine."}
	case len(s.Outdated) > 0:
		return Finding{check, Warning, fmt.Sprintf("version %d, and functions that are not this pgdispatch's: %s", s.Current, strings.Join(s.Outdated, ", ")),
			"Replicas work by the functions of another pgdispatch, older or newer.", "Where this pgdispatch is the newer one: run `pgdispatch migrate up`."}
	}
	return ok(check, "version %d, the newest", s.Current)
}

func checkTriggers(bad []operate.Defect) Finding {
	if len(bad) > 0 {
		return Finding{"triggers", Problem, shortDefects(bad), "Rows are not checked or not announced, or slots are not given back: items wait until a replica looks through all that waits, which each does every minute.",
			"`alter table pgdispatch.... enable trigger ...`; one that is missing comes back with `delete from pgdispatch.applied_functions where name = 'triggers'` and `pgdispatch migrate up`."}
	}
	return ok("triggers", "all there, all enabled")
}

func checkTables(bad []operate.Defect) Finding {
	if len(bad) > 0 {
		return Finding{"tables", Warning, shortDefects(bad), "Vacuum comes too rarely for a table that changes all day: it grows, and becomes slower.",
			"`alter table pgdispatch.... set (...)` as named, and `reset (autovacuum_enabled)` where it is off."}
	}
	return ok("tables", "their vacuum settings are as the migrations have them")
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
		dead = append(dead, fmt.Sprintf("%s has been dead for %s", view.Printable(r.ID), view.Shortly(r.DeadFor)))
		if r.Leased+r.Watching > 0 {
			dead[len(dead)-1] += fmt.Sprintf(" and holds %d items and %d watches", r.Leased, r.Watching)
		}
	}
	switch {
	case live == 0:
		return Finding{check, Warning, shortList(append([]string{"no replica runs"}, dead...)), "Items wait, and nobody learns of the ends of workflows.", "Start one: `pgdispatch run`."}
	case len(namespaces) > 1:
		return Finding{check, Problem, "they have different namespaces: " + shortList(namespaces), "An item whose definition names no namespace is started in that of whichever replica claims it first, once, and stays there.", "Give all replicas the same TEMPORAL_NAMESPACE, and definitions that belong elsewhere a namespace of their own (workflow_definitions.namespace)."}
	case len(dead) > 0:
		return Finding{check, Warning, fmt.Sprintf("%d run; %s", live, shortList(dead)), "It ended without a farewell. The others take over what it held when its lease ends; its row goes after a day.", "See in its log, or its machine's, why it was killed."}
	}
	return ok(check, "%d run", live)
}

func checkDefinitions(queues []operate.TaskQueue) Finding {
	without, all := int64(0), int64(0)
	for _, q := range queues {
		without, all = without+q.WithoutVersion, all+q.Definitions
	}
	if without > 0 {
		return Finding{"definitions", Warning, fmt.Sprintf("%d of %d have no version", without, all), "What is enqueued for them fails.", "Give each a version: insert it into pgdispatch.workflow_definition_versions."}
	}
	return ok("definitions", "%d, on %d task queues", all, len(queues))
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

func shortDefects(defects []operate.Defect) string {
	list := make([]string, len(defects))
	for n, d := range defects {
		list[n] = d.Name + ": " + d.Problem
	}
	return shortList(list)
}

// shortList joins the first few entries of a list.
func shortList(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], "; ") + fmt.Sprintf("; and %d more", len(list)-most)
	}
	return strings.Join(list, "; ")
}
