package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestEveryCommandRefusesWhatIsNotVerifiedAndTakesTheWaiver(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: "postgres://app:hunter2@db.example/shop"}
	for _, command := range [][]string{{"status"}, {"migrate", "up"}, {"items", "list"}, {"run"}} {
		_, errs, code := d.tries(command...)
		require.Equal(t, 1, code, command)
		require.Contains(t, errs, "PGDISPATCH_ALLOW_INSECURE_DATABASE=on", command)
		require.NotContains(t, errs, "hunter2", command)
	}
	found, code := d.diagnosis("--temporal-address", "temporal.example:7233")
	require.Equal(t, 1, code)
	require.Contains(t, found["database"].Finding, "PGDISPATCH_ALLOW_INSECURE_DATABASE=on")
	require.Contains(t, found["temporal"].Finding, "PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on")

	d = &desk{t: t, url: "postgres://nobody@db.invalid/shop?connect_timeout=1"}
	_, errs, _ := d.tries("migrate", "up", "--allow-insecure-database=on")
	require.NotContains(t, errs, "not verified", "the connection is attempted, and the host does not exist")
	require.Contains(t, errs, "connect to Postgres")
}

func TestWhatIsNotVerifiedIsReportedWithAllElseThatIsWrong(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: "postgres://app:hunter2@db.example/shop"}
	_, errs, code := d.tries("run", "--workers=0", "--temporal-address=temporal.example:7233", "--callback-url=nonsense",
		"--log-level=loud")
	require.Equal(t, 1, code)
	for _, fault := range []string{
		`--workers is "0"`, `--log-level is "loud"`, "DATABASE_URL: the connection to db.example is not verified",
		"TEMPORAL_ADDRESS: the connection to temporal.example is not verified", `--callback-url is "nonsense"`,
	} {
		require.Contains(t, errs, fault)
	}
	require.NotContains(t, errs, "hunter2")
	_, errs, _ = d.tries("status", "--allow-insecure-database=perhaps")
	require.Contains(t, errs, `--allow-insecure-database is "perhaps"`)
	require.Contains(t, errs, "DATABASE_URL: the connection to db.example is not verified")

	d.url = "postgres://app:hunter2@db.example:port/shop"
	_, errs, _ = d.tries("run", "--workers=0")
	require.NotContains(t, errs, "not verified", "an unreadable address is one error")
	require.Contains(t, errs, "DATABASE_URL is ")
	require.NotContains(t, errs, "hunter2")
}

func TestDoctorLooksAtTheRoleThatAReplicaWouldHave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for membership, want := range map[string]struct {
		doctor.Severity
		finding string
	}{
		"in role pgdispatch_dispatcher": {doctor.Fine,
			"has the privileges that `run` needs, and owns nothing"},
		"superuser":                {doctor.Warning, "is a superuser"},
		"in role pgdispatch_owner": {doctor.Warning, "owns the schema"},
		"in role pgdispatch_reader": {doctor.Problem,
			"lacks privileges that `run` needs: delete on activity"},
		"in role pgdispatch_operator": {doctor.Problem,
			"lacks privileges that `run` needs: delete on activity"},
		"in role pgdispatch_operator, pgdispatch_dispatcher": {doctor.Warning, "is also an operator"},
		"in role pgdispatch_reader, pgdispatch_dispatcher":   {doctor.Fine, "has the privileges that `run` needs"},
	} {
		found, _ := (&desk{t: t, url: sqltest.Login(t, d.url, membership)}).diagnosis("--temporal-address", nowhere)
		require.Equal(t, want.Severity, found["role"].Severity, membership)
		require.Contains(t, found["role"].Finding, want.finding, membership)
	}
}
