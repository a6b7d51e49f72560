package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// loginRoles are the roles of docs/security.md. The empty one is of a login without any membership.
var loginRoles = []string{"owner", "operator", "dispatcher", "enqueuer", "reader", ""}

// notOfARole are the commands that do not depend on the database role alone. The tests of doctor run it as each role.
var notOfARole = []string{"doctor", "version"}

// asRoles returns what is typed to run a command: each call of a command with rows of its own. d is the superuser's.
var asRoles = map[string]func(d *desk) [][]string{
	"audit list":         plainly(),
	"definitions list":   plainly(),
	"items list":         plainly(),
	"limits list":        plainly(),
	"workspaces list":    plainly("--limit", "1"),
	"dead list":          plainly(),
	"settings get":       plainly(),
	"status":             plainly(),
	"migrate status":     plainly(),
	"migrate adopt":      plainly(),
	"executions signals": plainly(),
	"workspaces show":    plainly("shop"),
	"dead show":          func(d *desk) [][]string { return [][]string{{d.failed()}} },
	"items show":         func(d *desk) [][]string { return [][]string{{d.waiting()}} },
	"executions show":    func(d *desk) [][]string { return [][]string{{d.running()}} },
	"items wait":         func(d *desk) [][]string { return [][]string{{d.completed()}} },

	"dead discard": func(d *desk) [][]string { return [][]string{{d.failed()}, {"--error", d.failedWith("no"), "--yes"}} },
	"dead replay":  func(d *desk) [][]string { return [][]string{{d.failed()}, {"--error", d.failedWith("no"), "--yes"}} },
	"definitions create": func(d *desk) [][]string {
		return [][]string{{"--workspace", "shop", "--name", "invoice", "--type", "Invoice", "--task-queue", "orders"}}
	},
	"definitions version": func(d *desk) [][]string {
		return [][]string{{"order", "--workspace", "shop", "--graph", d.file("graph.json", `{"nodes": []}`)}}
	},
	"enqueue": func(d *desk) [][]string {
		debounce := []string{"order", "--workspace", "shop", "--key", "a", "--on-conflict", "debounce", "--quiet", "5s"}
		return [][]string{
			{"order", "--workspace", "shop"},
			{"order", "--workspace", "shop", "--limit-key", "smtp", "--idempotency-key", "once"},
			{"order", "--workspace", "shop", "--key", "a"},
			{"order", "--workspace", "shop", "--key", "a", "--on-conflict", "replace"}, debounce,
			{"--from", d.file("items.ndjson", `{"workspace": "shop", "definition": "order", "limit_key": "smtp"}`)},
		}
	},
	"executions cancel":    func(d *desk) [][]string { return [][]string{{d.running(), "--yes"}, {d.waiting(), "--yes"}} },
	"executions terminate": func(d *desk) [][]string { return [][]string{{d.running(), "--yes"}, {d.waiting(), "--yes"}} },
	"executions signal": func(d *desk) [][]string {
		return [][]string{{d.running(), "go"}, {d.waiting(), "go", "--payload", "1"}}
	},
	"executions resend": func(d *desk) [][]string { return [][]string{{d.givenUp()}} },
	"executions give-up": func(d *desk) [][]string {
		item := d.running()
		d.exec(`insert into pgdispatch.missing_executions (execution_id, since, asked_at, young)
			select execution_id, now(), now(), true from pgdispatch.workflow_execution_queue where id = $1::bigint`, item)
		return [][]string{{item}}
	},
	"items give-up": func(d *desk) [][]string {
		waiting := d.waiting()
		d.exec("update pgdispatch.workflow_execution_queue set run_at = now() where id = $1::bigint", waiting)
		d.exec("update pgdispatch.settings set paused = false, max_claims = 100")
		for _, item := range d.claims() {
			d.settles(claim.Release, claim.Settlement{Verb: claim.Release, ID: item.ID, Token: item.Token, Alone: true,
				Delay: time.Minute})
		}
		return [][]string{{waiting}}
	},
	"items cancel": func(d *desk) [][]string { return [][]string{{d.waiting()}, {"--workspace", "shop", "--yes"}} },
	"items purge": func(d *desk) [][]string {
		return [][]string{{d.completed()}, {"--error", d.failedWith("old"), "--yes"}}
	},
	"items retry": func(d *desk) [][]string { return [][]string{{d.waiting()}} },
	"limits set": func(d *desk) [][]string {
		return [][]string{
			{"smtp", "--max", "3"}, {"smtp", "--max", "4"}, {"mail", "--rates", "10/s,100/1m"}, {"mail", "--rates", "off"},
			{"smtp", "--workspace", "shop", "--max", "2", "--rates", "1/s"},
		}
	},
	"limits pause": plainly("held"),
	"limits resume": func(d *desk) [][]string {
		d.exec("insert into pgdispatch.limits (key, paused) values ('pausing', true)")
		return [][]string{{"pausing"}}
	},
	"limits remove": func(d *desk) [][]string {
		d.exec("insert into pgdispatch.limits (key, max_concurrent) values ('old', 1)")
		d.exec("insert into pgdispatch.limits (key, max_concurrent, workspace_id) values ('old', 1, $1)", d.workspace)
		return [][]string{{"old"}, {"old", "--workspace", "shop"}}
	},
	"settings set": func(d *desk) [][]string {
		return [][]string{{"max-claims", "50"}, {"paused", "true"}, {"retention", "30d"}, {"dead-letter-retention", "60d"},
			{"result-bytes", "100"}, {"workflow-id-bytes", "1000"}, {"notify-ended", "true"}}
	},
	"workspaces create":    plainly("bank"),
	"workspaces pause":     plainly("shop"),
	"workspaces resume":    plainly("shop"),
	"workspaces set-burst": plainly("shop", "9000"),
	"workspaces set-limit": plainly("shop", "7"),
	"workspaces set-plan":  plainly("shop", "PRO"),
	"workspaces set-rate":  plainly("shop", "2"),
	// Last, because what they leave is of no use to the others.
	"migrate up":   plainly(),
	"migrate down": plainly("--to", "0", "--yes"),
}

func plainly(args ...string) func(*desk) [][]string {
	return func(*desk) [][]string { return [][]string{args} }
}

// Every command is run as a login of every role. docs/security.md says which role may run it, and a change by one that
// may is in the log of changes under its login.
func TestEveryCommandDoesAsEachRoleWhatThePageSays(t *testing.T) {
	t.Parallel()
	may := commandsOfRoles(t)
	for _, role := range loginRoles {
		t.Run("pgdispatch_"+role, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			membership := ""
			if role != "" {
				membership = "in role pgdispatch_" + role
			}
			url := sqltest.Login(t, d.url, membership)
			login := &desk{t: t, url: url, db: sqltest.Pool(t, url)}
			for _, path := range commandsToTry() {
				for _, args := range asRoles[path](d) {
					typed := append(strings.Fields(path), args...)
					before := d.value("select count(*)::text from pgdispatch.admin_log")
					_, errs, code := login.tries(typed...)
					if !may(role, path) {
						require.NotZero(t, code, "%s may not run %q", role, typed)
						require.Contains(t, errs, "42501", "%s may not run %q", role, typed)
						require.Equal(t, before, d.value("select count(*)::text from pgdispatch.admin_log"), typed)
						continue
					}
					require.Zero(t, code, "%s may run %q: %s", role, typed, errs)
					if changes(path) && !strings.HasPrefix(path, "migrate") {
						require.Equal(t, "true "+path, d.value("select (l.role = $1) || ' ' || l.action from pgdispatch.admin_log l "+
							"order by l.id desc limit 1", login.value("select session_user::text")), typed)
						require.NotEqual(t, before, d.value("select count(*)::text from pgdispatch.admin_log"), typed)
					}
				}
			}
		})
	}
}

// commands is the tree of commands without `run`: TestEachRoleDoesItsPartOfTheWhole runs replicas.
func commands() *cobra.Command { return (&cli.App{}).Root() }

func everyCommand(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, child := range command.Commands() {
		all = append(all, everyCommand(child)...)
	}
	return all
}

// commandsToTry returns the commands of the tree in the order in which they are run.
func commandsToTry() []string {
	paths := []string{}
	for _, command := range everyCommand(commands()) {
		path := strings.TrimPrefix(command.CommandPath(), "pgdispatch ")
		if !command.HasSubCommands() && !slices.Contains(notOfARole, path) {
			paths = append(paths, path)
		}
	}
	last := func(path string) bool { return path == "migrate up" || path == "migrate down" }
	return append(slices.DeleteFunc(slices.Clone(paths), last), "migrate up", "migrate down")
}

func TestEveryCommandHasACaseForTheRoles(t *testing.T) {
	t.Parallel()
	for _, path := range commandsToTry() {
		require.Contains(t, asRoles, path, "say in asRoles how each role tries it")
	}
	require.Len(t, asRoles, len(commandsToTry()), "a case is of no command")
}

// changes reports whether a command changes something: it then takes the name of who does it, or migrates.
func changes(path string) bool {
	command, _, err := commands().Find(strings.Fields(path))
	return path == "migrate up" || path == "migrate down" ||
		err == nil && command.Name() != "list" && command.Flags().Lookup("by") != nil
}

// commandsOfRoles reads the table of roles in docs/security.md.
func commandsOfRoles(t *testing.T) (may func(role, path string) bool) {
	t.Helper()
	rows, owners := map[string]string{}, []string{}
	for line := range strings.Lines(section(t, readPage(t, "docs/security.md"), "Roles")) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `pgdispatch_") {
			role := strings.TrimPrefix(strings.Trim(cells[0], "| `"), "pgdispatch_")
			if rows[role] = cells[1] + ", " + cells[2]; role == "owner" {
				owners = strings.Split(strings.Trim(cells[1], "`"), "`, `")
			}
		}
	}
	return func(role, path string) bool {
		words := rows[role]
		switch {
		case role == "owner":
			return true
		case slices.Contains(owners, path):
			return false
		case changes(path):
			return strings.Contains(words, "every changing command except those of the owner")
		}
		return strings.Contains(words, "commands that change nothing") || strings.Contains(words, "what a reader may")
	}
}

// waiting enqueues an item that is not due, and returns its ID.
func (d *desk) waiting() string {
	d.t.Helper()
	return d.value(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, run_at)
		select workspace_id, id, now() + interval '1 hour' from pgdispatch.workflow_definitions
		where workspace_id = $1 and name = 'order' returning id::text`, d.workspace)
}

// running hands over an item, and returns its ID.
func (d *desk) running() string {
	d.t.Helper()
	id := d.waiting()
	d.exec("update pgdispatch.workflow_execution_queue set run_at = now() where id = $1::bigint", id)
	d.exec("update pgdispatch.settings set paused = false, max_claims = 100")
	for _, item := range d.claims() {
		d.settles(claim.Dispatched, claim.Settlement{Verb: claim.Dispatched, ID: item.ID, Token: item.Token, RunID: "run"})
	}
	return id
}

func (d *desk) completed() string { d.t.Helper(); return d.ended("COMPLETED", "") }

func (d *desk) failed() string { d.t.Helper(); return d.ended("FAILED", "broken") }

// failedWith makes a dead letter, and returns its error.
func (d *desk) failedWith(reason string) string {
	d.t.Helper()
	d.ended("FAILED", reason)
	return reason
}

func (d *desk) ended(outcome, reason string) string {
	d.t.Helper()
	id := d.running()
	d.exec(`select pgdispatch.finish(execution_id, $2, $3) from pgdispatch.workflow_execution_queue
		where id = $1::bigint`, id, outcome, reason)
	return id
}

// givenUp sends a signal that Temporal refused for good, and returns its ID.
func (d *desk) givenUp() string {
	d.t.Helper()
	return d.value(`insert into pgdispatch.signals (execution_id, name, state, settled_at, error)
		select execution_id, 'go', 'GIVEN_UP', now(), 'no' from pgdispatch.workflow_execution_queue
		where id = $1::bigint returning id::text`, d.running())
}

// file writes a file for a command to read, and returns its path.
func (d *desk) file(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	require.NoError(d.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
