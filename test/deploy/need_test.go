package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// packages are Debian's packages, with the programs and files of each that .ci/need looks for.
var packages = map[string][]string{
	"make":              {"bin/make"},
	"gcc":               {"bin/gcc"},
	"libc6-dev":         nil,
	"postgresql":        {"usr/lib/postgresql/15/bin/initdb", "usr/lib/postgresql/15/bin/postgres"},
	"postgresql-client": {"bin/psql"},
	"ca-certificates":   {"etc/ssl/certs/ca-certificates.crt"},
	"chromium":          {"bin/chromium"},
	"chromium-browser":  {"bin/chromium-browser"},
	"pgbouncer":         {"usr/sbin/pgbouncer"},

	"chromium-headless-shell": {"bin/chromium-headless-shell"},
}

// bare is a machine without any program but Go and those that are added: its PATH is one directory of stubs.
type bare struct {
	t    *testing.T
	root string // the directory that stands for /
	bash string
	env  []string
}

func newBare(t *testing.T) *bare {
	t.Helper()
	bash := must.Get(exec.LookPath("bash")).In(t)
	m := &bare{t: t, root: t.TempDir(), bash: bash}
	m.env = []string{"PATH=" + filepath.Join(m.root, "bin"), "NEED_ROOT=" + m.root}
	m.program("id", "echo 1000")
	m.goes("go1.26.8", "auto")
	return m
}

// program adds a program to the PATH that runs these lines.
func (m *bare) program(name, lines string) { m.file("bin/"+name, lines) }

func (m *bare) file(name, lines string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte("#!"+m.bash+"\n"+lines+"\n"), 0o755))
}

// goes adds a Go of this version, with this GOTOOLCHAIN.
func (m *bare) goes(version, toolchain string) {
	m.program("go", fmt.Sprintf("printf '%%s\\n' '%s' '%s' gcc", version, toolchain))
}

func (m *bare) install(names ...string) {
	for _, name := range names {
		for _, file := range packages[name] {
			m.file(file, "echo 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'")
		}
	}
}

// debian adds an apt-get that installs the packages and notes each call.
func (m *bare) debian() {
	ln := must.Get(exec.LookPath("ln")).In(m.t)
	mkdir := must.Get(exec.LookPath("mkdir")).In(m.t)
	lines := []string{`echo "$@" >>"$NEED_ROOT/calls"`, `[ "$1" = install ] || exit 0`, `for package; do case $package in`}
	shelf := newShelf(m)
	for name, files := range packages {
		line := name + ")"
		for _, file := range files {
			to := filepath.Join(m.root, file)
			line += fmt.Sprintf(" %s -p %s; %s -s %s %s;", mkdir, filepath.Dir(to), ln, filepath.Join(shelf, file), to)
		}
		lines = append(lines, line+" ;;")
	}
	m.program("apt-get", strings.Join(append(lines, "esac; done"), "\n"))
}

// newShelf returns a directory with the files of all packages, none of them installed.
func newShelf(m *bare) string {
	shelf := &bare{t: m.t, root: m.t.TempDir(), bash: m.bash}
	for name := range packages {
		shelf.install(name)
	}
	return shelf.root
}

// calls returns what apt-get was called with.
func (m *bare) calls() string {
	m.t.Helper()
	calls, err := os.ReadFile(filepath.Join(m.root, "calls"))
	if !os.IsNotExist(err) {
		require.NoError(m.t, err)
	}
	return string(calls)
}

// needs runs .ci/need.
func (m *bare) needs(goal string) (stdout, stderr string, code int) {
	m.t.Helper()
	var out, errs bytes.Buffer
	command := exec.Command(m.bash, "../../.ci/need", goal)
	command.Env, command.Stdout, command.Stderr = m.env, &out, &errs
	if err := command.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(m.t, err, &exit)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// refuses requires that .ci/need fails with this text.
func (m *bare) refuses(goal, want string) {
	m.t.Helper()
	_, errs, code := m.needs(goal)
	require.Equal(m.t, 1, code)
	require.Equal(m.t, want, errs)
	require.Empty(m.t, m.calls(), "nothing is installed")
}

const (
	missingToRun = "make; a C compiler, for the race detector; " +
		"Postgres 15 or newer, which the demo and the tests start; psql, a client that inserts items"
	missingToTest = missingToRun + "; Chromium, in which the web view is tested" + missingPooler

	missingPooler = "; PgBouncer, behind which replicas are tested"
)

func TestNeedInstallsExactlyWhatIsMissingAsRootOnDebian(t *testing.T) {
	t.Parallel()
	const all = "make gcc libc6-dev postgresql postgresql-client ca-certificates"
	for name, row := range map[string]struct {
		goal, has, want string
	}{
		"everything to run":  {"run", "", all},
		"everything to test": {"test", "", all + " chromium-headless-shell pgbouncer"},
		"the compiler": {"test", "make postgresql postgresql-client ca-certificates chromium-headless-shell pgbouncer",
			"gcc libc6-dev"},
		"Chromium":         {"test", all + " pgbouncer", "chromium-headless-shell"},
		"Chromium's shell": {"test", all + " pgbouncer chromium", "chromium-headless-shell"},
		"PgBouncer":        {"test", all + " chromium-headless-shell", "pgbouncer"},
		"nothing to run":   {"run", all, ""},
		"nothing to test":  {"test", all + " chromium-headless-shell pgbouncer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newBare(t)
			m.program("id", "echo 0")
			m.debian()
			m.install(strings.Fields(row.has)...)
			out, errs, code := m.needs(row.goal)
			require.Zero(t, code, errs)
			require.Empty(t, errs)
			if row.want == "" {
				require.Empty(t, out+m.calls())
				return
			}
			require.Equal(t, "update -qq\ninstall -y -qq "+row.want+"\n", m.calls())
			require.Regexp(t, "^installing "+row.want+` \(.+\)\n$`, out, "one line says what, and why")

			out, errs, code = m.needs(row.goal)
			require.Zero(t, code)
			require.Empty(t, out+errs, "nothing is missing now")
		})
	}
}

func TestNeedPrintsTheOneCommandElsewhere(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		ail  func(*bare)
		goal string
		want string
	}{
		"Debian, not root": {(*bare).debian, "test", "missing: " + strings.Replace(missingToTest, "; Chromium",
			"; certificates, to download Go modules; Chromium", 1) + "\nrun: sudo apt-get update && sudo apt-get install -y " +
			"make gcc libc6-dev postgresql postgresql-client ca-certificates chromium-headless-shell pgbouncer\n"},
		"Ubuntu, not root": {func(m *bare) {
			m.debian()
			m.install("make", "gcc", "postgresql", "postgresql-client", "ca-certificates")
			require.NoError(m.t, os.WriteFile(filepath.Join(m.root, "etc/os-release"), []byte("NAME=x\nID=ubuntu\n"), 0o600))
		}, "test", "missing: Chromium, in which the web view is tested" + missingPooler +
			"\nrun: sudo apt-get update && sudo apt-get install -y chromium-browser pgbouncer\n"},
		"Fedora as root": {func(m *bare) { m.program("id", "echo 0"); m.program("dnf", "exit 1") }, "run",
			"missing: " + missingToRun + "\nrun: dnf install -y make gcc glibc-devel postgresql-server postgresql\n"},
		"macOS": {func(m *bare) { m.program("brew", "exit 1"); m.install("make", "gcc") }, "test",
			"missing: Postgres 15 or newer, which the demo and the tests start; psql, a client that inserts items; " +
				"Chromium, in which the web view is tested" + missingPooler +
				"\nrun: brew install postgresql@18 libpq chromium pgbouncer\n"},
		"another": {func(*bare) {}, "run", "missing: " + missingToRun +
			"\ninstall it; set PGDISPATCH_PG_BINDIR if initdb and postgres are in an unusual directory\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newBare(t)
			row.ail(m)
			m.refuses(row.goal, row.want)
		})
	}
}

func TestNeedStopsWithinASecond(t *testing.T) {
	t.Parallel()
	m := newBare(t)
	quickest := time.Hour
	for range 5 { // other tests may have the machine
		began := time.Now()
		_, _, code := m.needs("test")
		require.Equal(t, 1, code)
		quickest = min(quickest, time.Since(began))
	}
	require.Less(t, quickest, time.Second)
}

func TestNeedRefusesAnOldGoBeforeItInstallsAnything(t *testing.T) {
	t.Parallel()
	const from, orAuto = "install Go 1.26.8 or newer from https://go.dev/dl", ", or set GOTOOLCHAIN=auto\n"
	for name, row := range map[string]struct{ version, toolchain, want string }{
		"local":       {"go1.26.7", "local", "Go 1.26.7 is too old, and GOTOOLCHAIN=local: " + from + orAuto},
		"named":       {"go1.25.11", "go1.25.11", "Go 1.25.11 is too old, and GOTOOLCHAIN=go1.25.11: " + from + orAuto},
		"before 1.21": {"go1.19.8", "", "Go 1.19.8 is too old: " + from + "\n"},
		"candidate":   {"go1.26rc2", "", "Go 1.26rc2 is too old: " + from + "\n"},
		"auto":        {"go1.24.4", "auto", ""},
		"auto after":  {"go1.24.4", "go1.24.4+auto", ""},
		"exact":       {"go1.26.8", "local", ""},
		"newer":       {"go1.27.0", "local", ""},
		"much newer":  {"go1.100rc1", "local", ""},
		"major":       {"go2.0", "local", ""},
		"unreleased":  {"devel go1.28-0a1b2c3 Mon Nov 23 10:00:00 2026 +0000", "local", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newBare(t)
			m.debian()
			m.goes(row.version, row.toolchain)
			if row.want != "" {
				m.program("id", "echo 0")
				m.refuses("run", row.want)
				return
			}
			_, errs, _ := m.needs("run")
			require.NotContains(t, errs, "too old")
			require.Contains(t, errs, "missing: make", "Go is not")
		})
	}
	m := newBare(t)
	require.NoError(t, os.Remove(filepath.Join(m.root, "bin/go")))
	m.refuses("run", "Go is missing: "+from+"\n")
}

func TestNeedWantsThePostgresThatTheTestsWouldStart(t *testing.T) {
	t.Parallel()
	server := func(m *bare, dir, version string) string {
		for _, program := range []string{"initdb", "postgres"} {
			m.file(filepath.Join(dir, program), "echo 'postgres (PostgreSQL) "+version+"'")
		}
		return filepath.Join(m.root, dir)
	}
	machine := func(t *testing.T) *bare {
		m := newBare(t)
		m.install("make", "gcc", "postgresql-client")
		return m
	}
	const unusual = "\ninstall it; set PGDISPATCH_PG_BINDIR if initdb and postgres are in an unusual directory\n"

	m := machine(t)
	old := server(m, "usr/lib/postgresql/14/bin", "14.23 (Ubuntu 14.23-0ubuntu0.22.04.1)")
	m.refuses("run", "missing: Postgres 15 or newer instead of 14.23 in "+old+unusual)
	server(m, "usr/lib/postgresql/18/bin", "18.4")
	server(m, "usr/lib/postgresql/9.6/bin", "9.6.24")
	_, errs, code := m.needs("run")
	require.Zero(t, code, "the newest counts: %s", errs)

	m.env = append(m.env, "PGDISPATCH_PG_BINDIR="+old)
	m.refuses("run", "missing: Postgres 15 or newer instead of 14.23 in "+old+unusual)
	m.env = append(m.env, "PGDISPATCH_PG_BINDIR=/nowhere")
	m.refuses("run", "missing: Postgres 15 or newer, which the demo and the tests start"+unusual)
	m.env = append(m.env, "PGDISPATCH_PG_BINDIR="+server(m, "opt/pg/bin", "19beta2"))
	_, errs, code = m.needs("run")
	require.Zero(t, code, errs)

	m = machine(t)
	m.program("pg_config", "echo "+server(m, "opt/pg/bin", "16.1"))
	_, errs, code = m.needs("run")
	require.Zero(t, code, errs)
}

func TestNeedSaysWhatAptGetCouldNotInstall(t *testing.T) {
	t.Parallel()
	m := newBare(t)
	m.program("id", "echo 0")
	m.program("apt-get", "exit 100")
	m.install("make", "gcc", "postgresql", "postgresql-client", "ca-certificates")
	_, errs, code := m.needs("test")
	require.Equal(t, 1, code)
	require.Equal(t, "apt-get failed: install chromium-headless-shell pgbouncer\n", errs)
	m.program("apt-get", "exit 0")
	_, errs, code = m.needs("test")
	require.Equal(t, 1, code)
	require.Equal(t, "still missing after the installation: Chromium, in which the web view is tested"+
		missingPooler+"\n", errs)
}

func TestMakeChecksWhatItNeedsBeforeItBuilds(t *testing.T) {
	t.Parallel()
	for _, goal := range []string{"run", "test"} {
		command := exec.Command("make", "-C", "../..", "--dry-run", "--no-print-directory", goal)
		command.Env = []string{"PATH=" + os.Getenv("PATH")} // not those of the make that runs this test
		out := must.Get(command.Output()).In(t)
		first, _, _ := strings.Cut(string(out), "\n")
		require.Equal(t, ".ci/need "+goal, first)
	}
}

func TestNeedGoesOnWithoutTheHeadlessShell(t *testing.T) {
	t.Parallel()
	m := newBare(t)
	m.program("id", "echo 0")
	m.program("apt-get", "exit 100")
	m.install("make", "gcc", "postgresql", "postgresql-client", "ca-certificates", "chromium", "pgbouncer")
	out, errs, code := m.needs("test")
	require.Zero(t, code, errs)
	require.Equal(t, "installing chromium-headless-shell (tests of the web view take half the time in it)\n"+
		"it could not be installed: the tests use another Chromium\n", out)
	out, _, code = m.needs("run")
	require.Zero(t, code)
	require.Empty(t, out)
}
