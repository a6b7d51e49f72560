package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/bench/internal/queries"
	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const settle = "select public.settle()"

// Instructions counts what the server executes for a cycle: exactly, and so on any machine the same, however busy it is.
func Instructions() *Scenario {
	return &Scenario{
		Name: "instructions", Title: "What the statements execute",
		Text: "Thousands of instructions of the server for one cycle, counted by valgrind in Postgres' single-user mode: the same on any machine, " +
			"however busy it is, to within 1 %. Nothing of the kernel is counted, of the disk, of the connection and of waiting, so a speed follows them " +
			"in part only. `-only instructions -pgdispatch OTHER_BINARY` counts another version's.",
		Entrants: []Entrant{
			counted("INSERT of one item", 0, "execute enqueue(1)"),
			counted("INSERT, claim and settle of one item", 0, "execute enqueue(1)", "execute claim(100)", settle),
			counted("the same and its workflow's end", 0, "execute enqueue(1)", "execute claim(100)", settle, "execute finish_one"),
			counted("INSERT, claim and settle of ten items of ten workspaces", 0, "execute enqueue(10)", "execute claim(100)", settle),
			counted("claim and settle of twenty of the items that wait in 20 workspaces", 4000, "execute claim(20)", settle),
			counted("claim and settle of fifty of them", 4000, "execute claim(50)", settle),
			counted("the same and their workflows' ends, together", 4000, "execute claim(50)", settle, "execute finish_all"),
		},
		Columns:   []Column{{"thousands", "thousand instructions"}},
		MaxRounds: 1,
	}
}

// counted is a cycle of statements, beside so many items that wait before the first. Whatever one has that another has not is what that costs.
func counted(name string, waits int, cycle ...string) Entrant {
	return Entrant{Name: name, Colour: blue, Run: func(ctx context.Context, t *Turn) error {
		valgrind, err := exec.LookPath("valgrind")
		if err != nil {
			t.Notes = append(t.Notes, "Not measured: there is no valgrind. `apt-get install valgrind` has it.")
			return nil
		}
		few, err := count(ctx, valgrind, t.Binary, waits, cycle, 4)
		if err != nil {
			return err
		}
		many, err := count(ctx, valgrind, t.Binary, waits, cycle, 24)
		if err != nil {
			return err
		}
		t.Figures["thousands"] = float64(many-few) / 20 / 1000
		return nil
	}}.slow()
}

// settling puts what is claimed into the product's own statement.
func settling() string {
	return fmt.Sprintf(queries.Get("count_settle"), strings.NewReplacer(
		"$1", "ids", "$2", "tokens", "$3", "runs", "$4", "'bench'", "select id from moved", "select count(*) into settled from moved",
	).Replace(sql.Dispatched))
}

// count executes so many cycles in a cluster of their own, and returns the instructions of all that the server did from its start.
func count(ctx context.Context, valgrind, binary string, waits int, cycle []string, cycles int) (n int64, err error) {
	l, err := lab.Open(ctx, lab.Options{Binary: binary})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := prepare(ctx, l, waits); err != nil {
		return 0, err
	}
	// In order, and what it wrote stays for the single user.
	if err := syscall.Kill(l.Cluster.PID(), syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("shut the server down: %w", err)
	}
	<-l.Cluster.Exited()

	script := ""
	for _, p := range []struct{ name, arguments, query string }{
		{"enqueue", "(integer)", "count_enqueue"}, {"claim", "(integer)", "count_claim"}, {"finish_one", "", "count_end"}, {"finish_all", "", "count_ends"},
	} {
		// No other: an older version has not all that they call.
		if slices.ContainsFunc(cycle, func(s string) bool { return strings.HasPrefix(s, "execute "+p.name) }) {
			script += "prepare " + p.name + p.arguments + " as " + oneLine(p.query) + ";\n\n"
		}
	}
	for range cycles {
		script += strings.Join(cycle, ";\n\n") + ";\n\n"
	}
	return execute(ctx, valgrind, l.Cluster, script)
}

// prepare lets items wait, and lets the first claim make the workspaces' lanes: a workspace is new only once.
func prepare(ctx context.Context, l *lab.Lab, waits int) error {
	conn, err := pgx.Connect(ctx, l.Cluster.URL(lab.Ours))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []struct {
		text      string
		arguments []any
	}{
		{queries.Get("count_settings"), nil},
		{settling(), nil},
		{queries.Get("count_enqueue"), []any{nil}},
		{queries.Get("count_claim"), []any{100}},
		{settle, nil},
		{queries.Get("count_enqueue_many"), []any{waits / lab.Workspaces}},
		{queries.Get("count_claim"), []any{0}},
		{"vacuum (analyze)", nil},
	} {
		if _, err := conn.Exec(ctx, statement.text, statement.arguments...); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// oneLine is a query as a script has it, in which an empty line ends a statement.
func oneLine(name string) string { return strings.TrimSpace(queries.Get(name)) }

// execute has a single user execute a script, as the user whose the cluster is.
func execute(ctx context.Context, valgrind string, cluster *sqltest.Cluster, script string) (int64, error) {
	data := filepath.Join(cluster.Dir, "data")
	info, err := os.Stat(data)
	if err != nil {
		return 0, err
	}
	args := []string{"--tool=callgrind", "--callgrind-out-file=/dev/null", filepath.Join(cluster.BinDir, "postgres"), "--single", "-j", "-D", data}
	for name, value := range claim.Planning {
		args = append(args, "-c", name+"="+value)
	}
	command := exec.CommandContext(ctx, valgrind, append(args, lab.Ours)...)
	owner := info.Sys().(*syscall.Stat_t)
	if int(owner.Uid) != os.Getuid() {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	var report bytes.Buffer
	command.Dir, command.Stdin, command.Stderr = cluster.Dir, strings.NewReader(script), &report
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("run postgres --single: %w:\n%s", err, report.Bytes())
	}
	if failed := regexp.MustCompile(`ERROR: .*`).Find(report.Bytes()); failed != nil {
		return 0, fmt.Errorf("run the script: %s", failed)
	}
	collected := regexp.MustCompile(`Collected : (\d+)`).FindSubmatch(report.Bytes())
	if collected == nil {
		return 0, fmt.Errorf("valgrind said nothing of instructions:\n%s", report.Bytes())
	}
	return strconv.ParseInt(string(collected[1]), 10, 64)
}
