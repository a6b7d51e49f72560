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
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// step is a part of a cycle.
type step struct {
	name  string
	items int // enqueue: items per workspace, or number of workspaces; claim: the maximum
}

func enqueues(items int) step { return step{"enqueue", items} }
func claims(items int) step   { return step{"claim", items} }

var (
	settles    = step{name: "settle"}
	endsOne    = step{name: "end"}
	endsAll    = step{name: "ends"}
	statements = map[string]string{"enqueue": "count_enqueue", "end": "count_end", "ends": "count_ends"}
)

const settle = "select public.settle()"

// Instructions counts the instructions that the server executes for a cycle. The count is exact and the same on any
// machine, however busy it is.
func Instructions() *Scenario {
	return &Scenario{
		Name: "instructions", Title: "What the statements execute",
		Text: "Thousands of instructions of the server for one cycle, counted by valgrind in Postgres' single-user mode: " +
			"the same on any machine, however busy, to within 1 %. The kernel, the disk, the connection and waiting " +
			"are not counted, so speed follows these figures only in part. The arguments of each claim are those of " +
			"the product's own store at the same point, recorded in a copy of the database first.",
		Entrants: []Entrant{
			counted("INSERT of one item", 0, enqueues(1)),
			counted("INSERT, claim and settle of one item", 0, enqueues(1), claims(100), settles),
			counted("the same and its workflow's end", 0, enqueues(1), claims(100), settles, endsOne),
			counted("INSERT, claim and settle of ten items of ten workspaces", 0, enqueues(10), claims(100), settles),
			counted("claim and settle of twenty of the items that wait in 20 workspaces", 4000, claims(20), settles),
			counted("claim and settle of fifty of them", 4000, claims(50), settles),
			counted("the same and their workflows' ends, together", 4000, claims(50), settles, endsAll),
		},
		Columns:   []Column{{"thousands", "thousand instructions"}},
		MaxRounds: 1,
	}
}

// counted runs a cycle of statements, with the given number of items waiting before the first. Differences between
// entrants are the cost of the steps in which they differ.
func counted(name string, waits int, cycle ...step) Entrant {
	return Entrant{Name: name, Colour: blue, Run: func(ctx context.Context, t *Turn) error {
		valgrind, err := exec.LookPath("valgrind")
		if err != nil {
			t.Notes = append(t.Notes, "Not measured: valgrind is not installed (`apt-get install valgrind`).")
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

// settling returns the settle script with the product's own statement inserted.
func settling() string {
	return fmt.Sprintf(lab.Query("count_settle"), strings.NewReplacer(
		"$1", "ids", "$2", "tokens", "$3", "runs", "$4", "'bench'", "select id from moved",
		"select count(*) into settled from moved",
	).Replace(sql.Text("dispatched")))
}

// count executes the cycles in a cluster of their own, and returns the instructions that the server executed since its
// start.
func count(ctx context.Context, valgrind, binary string, waits int, cycle []step, cycles int) (n int64, err error) {
	l, err := lab.Open(ctx, lab.Options{Binary: binary})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := prepare(ctx, l, waits); err != nil {
		return 0, err
	}
	recorded, err := record(ctx, l, cycle, cycles)
	if err != nil {
		return 0, err
	}
	// A fast shutdown keeps the data for the single-user server.
	if err := syscall.Kill(l.Cluster.PID(), syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("shut the server down: %w", err)
	}
	<-l.Cluster.Exited()

	script := ""
	for _, p := range []struct{ step, name, text string }{
		{"enqueue", "enqueue(integer)", lab.Query("count_enqueue")}, {"claim", "claim", sql.Text("claim")},
		{"claim", "lock_claims", sql.Text("lock_claims")}, {"claim", "claim_plain", sql.Text("claim_plain")},
		{"end", "finish_one", lab.Query("count_end")}, {"ends", "finish_all", lab.Query("count_ends")},
	} {
		// Prepare no other statements, because preparing is counted too.
		if slices.ContainsFunc(cycle, func(s step) bool { return s.name == p.step }) {
			// Single-user mode ends a statement at an empty line.
			script += "prepare " + p.name + " as " + strings.TrimSpace(p.text) + ";\n\n"
		}
	}
	return execute(ctx, valgrind, l.Cluster, script+recorded.script, recorded.items)
}

// prepare inserts waiting items and makes the first claim, because an epoch begins only once.
func prepare(ctx context.Context, l *lab.Lab, waits int) error {
	url := l.Cluster.URL(lab.Ours)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	pool, err := storePool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	claimed := func() error {
		_, err := (&claim.Store{Pool: pool, Owner: "bench", Lease: time.Hour}).Claim(ctx, 100)
		return err
	}
	execute := func(text string, arguments ...any) func() error {
		return func() error {
			_, err := conn.Exec(ctx, text, arguments...)
			return err
		}
	}
	for _, do := range []func() error{
		execute(lab.Query("count_settings")),
		execute(settling()),
		execute(lab.Query("count_enqueue"), nil),
		claimed,
		execute(settle),
		execute(lab.Query("count_enqueue_many"), waits/lab.Workspaces),
		execute("vacuum (analyze)"),
	} {
		if err := do(); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// execute has a single-user server execute a script that settles the given number of items. It runs as the cluster's
// user.
func execute(ctx context.Context, valgrind string, cluster *sqltest.Cluster, script string, items int) (int64, error) {
	data := filepath.Join(cluster.Dir, "data")
	info, err := os.Stat(data)
	if err != nil {
		return 0, err
	}
	args := []string{"--tool=callgrind", "--callgrind-out-file=/dev/null", filepath.Join(cluster.BinDir, "postgres"),
		"--single", "-j", "-D", data}
	for name, value := range postgres.Planning {
		args = append(args, "-c", name+"="+value)
	}
	command := exec.CommandContext(ctx, valgrind, append(args, lab.Ours)...)
	owner := info.Sys().(*syscall.Stat_t)
	if int(owner.Uid) != os.Getuid() {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	var report, answers bytes.Buffer
	command.Dir, command.Stdin, command.Stdout, command.Stderr = cluster.Dir, strings.NewReader(script), &answers, &report
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("run postgres --single: %w:\n%s", err, report.Bytes())
	}
	if failed := regexp.MustCompile(`ERROR: .*`).Find(report.Bytes()); failed != nil {
		return 0, fmt.Errorf("run the script: %s", failed)
	}
	settled := 0
	for _, found := range regexp.MustCompile(`settle = "(\d+)"`).FindAllSubmatch(answers.Bytes(), -1) {
		one, _ := strconv.Atoi(string(found[1])) // the pattern matches digits only
		settled += one
	}
	if settled != items {
		return 0, fmt.Errorf("the script settled %d items, and the store %d", settled, items)
	}
	collected := regexp.MustCompile(`Collected : (\d+)`).FindSubmatch(report.Bytes())
	if collected == nil {
		return 0, fmt.Errorf("valgrind said nothing of instructions:\n%s", report.Bytes())
	}
	return strconv.ParseInt(string(collected[1]), 10, 64)
}
