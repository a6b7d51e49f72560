package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestADatabaseOffThisMachineMustBeVerified(t *testing.T) {
	t.Parallel()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, []byte(certificate), 0o600))
	for address, verified := range map[string]bool{
		"postgres://app@db.example/shop":                                            false, // sslmode=prefer
		"postgres://app@db.example/shop?sslmode=disable":                            false,
		"postgres://app@db.example/shop?sslmode=allow":                              false,
		"postgres://app@db.example/shop?sslmode=require":                            false,
		"postgres://app@10.0.0.1/shop?sslmode=require":                              false,
		"postgres://app@localhost,db.example/shop":                                  false,
		"postgres://app@db.example/shop?sslmode=verify-full":                        true,
		"postgres://app@db.example/shop?sslmode=verify-ca&sslrootcert=" + authority: true,
		"postgres://app@db.example/shop?sslmode=require&sslrootcert=" + authority:   true, // which libpq takes for verify-ca
		"postgres://app@localhost/shop":                                             true,
		"postgres://app@127.1.2.3/shop?sslmode=disable":                             true,
		"postgres://app@[::1]/shop?sslmode=disable":                                 true,
		"host=/var/run/postgresql dbname=shop":                                      true,
		"postgres://app@localhost.example/shop":                                     false,
		"postgres://app@127.0.0.1.example/shop?sslmode=disable":                     false,
		"postgres://app@db.example,db2.example/shop?sslmode=verify-full":            true,
	} {
		_, err := parseDatabase(config{databaseURL: address})
		_, poolErr := openPool(t.Context(), config{databaseURL: address}, 1, nil)
		_, allowed := parseDatabase(config{databaseURL: address, allowInsecureDatabase: true})
		require.NoError(t, allowed, address)
		if verified {
			require.NoError(t, err, address)
			require.NoError(t, poolErr, address)
			continue
		}
		for _, refusal := range []error{err, poolErr} {
			require.ErrorIs(t, refusal, errUnverified, address)
			require.ErrorContains(t, refusal, "sslmode=verify-full", address)
			require.ErrorContains(t, refusal, "PGDISPATCH_ALLOW_INSECURE_DATABASE=on", address)
		}
	}
}

func TestWhatPagesChangeGoesOverAVerifiedConnectionToo(t *testing.T) {
	t.Parallel()
	_, _, err := openSite(t.Context(), config{databaseURL: "postgres://app@localhost/shop", operatorURL: "postgres://app@db.example/shop"}, newQuietLogger())
	require.ErrorIs(t, err, errUnverified)
	require.ErrorContains(t, err, "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")

	const both = "postgres://app@db.example/shop"
	c := config{databaseURL: both, operatorURL: both}
	require.ErrorContains(t, c.checkDatabaseAddress(), "DATABASE_URL: the connection to db.example")
	require.NotContains(t, c.checkDatabaseAddress().Error(), "OPERATOR", "each by its own name")
	require.ErrorContains(t, c.checkOperatorAddress(), "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")
}

func TestATemporalOffThisMachineMustBeVerified(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		address  string
		options  client.ConnectionOptions
		verified bool
	}{
		{"", client.ConnectionOptions{}, true},
		{"localhost:7233", client.ConnectionOptions{}, true},
		{"[::1]:7233", client.ConnectionOptions{}, true},
		{"unix:///run/temporal.sock", client.ConnectionOptions{}, true},
		{"dns:///localhost:7233", client.ConnectionOptions{}, true},
		{"temporal.example:7233", client.ConnectionOptions{}, false},
		{"dns:///temporal.example:7233", client.ConnectionOptions{}, false},
		{"temporal.example", client.ConnectionOptions{}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}}, true},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}, TLSDisabled: true}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{InsecureSkipVerify: true}}, false},
	} {
		options := client.Options{HostPort: row.address, ConnectionOptions: row.options}
		require.NoError(t, config{allowInsecureTemporal: true}.checkTemporal(options))
		err := config{}.checkTemporal(options)
		if row.verified {
			require.NoError(t, err, row)
			continue
		}
		require.ErrorIs(t, err, errUnverified, row)
		require.ErrorContains(t, err, "PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on", row)
	}
}

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
	require.Equal(t, exitProblems, code)
	require.Contains(t, found["database"].Finding, "PGDISPATCH_ALLOW_INSECURE_DATABASE=on")
	require.Contains(t, found["temporal"].Finding, "PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on")

	d = &desk{t: t, url: "postgres://nobody@db.invalid/shop?connect_timeout=1"}
	_, errs, _ := d.tries("migrate", "up", "--allow-insecure-database=on")
	require.NotContains(t, errs, "not verified", "it is tried, and there is no such host")
	require.Contains(t, errs, "connect to Postgres")
}

func TestWhatIsNotVerifiedIsReportedWithAllElseThatIsWrong(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, url: "postgres://app:hunter2@db.example/shop"}
	_, errs, code := d.tries("run", "--workers=0", "--temporal-address=temporal.example:7233", "--callback-url=nonsense", "--log-level=loud")
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
	require.NotContains(t, errs, "not verified", "an address that cannot be read is one fault")
	require.Contains(t, errs, "DATABASE_URL is ")
	require.NotContains(t, errs, "hunter2")
}

func TestDoctorLooksAtTheRoleThatAReplicaWouldHave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for membership, want := range map[string]struct {
		severity
		finding string
	}{
		"in role pgdispatch_dispatcher":                      {fine, "may do what `run` needs, and owns nothing"},
		"superuser":                                          {warning, "is a superuser"},
		"in role pgdispatch_owner":                           {warning, "owns the schema"},
		"in role pgdispatch_reader":                          {problem, "lacks what `run` needs: delete on activity"},
		"in role pgdispatch_operator":                        {problem, "lacks what `run` needs: delete on activity"},
		"in role pgdispatch_operator, pgdispatch_dispatcher": {warning, "is an operator too"},
		"in role pgdispatch_reader, pgdispatch_dispatcher":   {fine, "may do what `run` needs"},
	} {
		found, _ := (&desk{t: t, url: sqltest.Login(t, d.url, membership)}).diagnosis("--temporal-address", nowhere)
		require.Equal(t, want.severity, found["role"].Severity, membership)
		require.Contains(t, found["role"].Finding, want.finding, membership)
	}
}

// certificate is of an authority that signs nothing.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUcUFXeVkWQw7d7mlpI6OqMrqFHo8wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjExNzM3MzRaGA8yMTI2MTAyODE3Mzcz
NFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABI/j
S4j+8fqKdZ5ZyKEwsmlQnM7qasFpa7GrW4gcoG4YethnTFcZ62YgJf7WPogTM8q1
DNsWqXisC2/0ooD1ujyjUzBRMB0GA1UdDgQWBBRbBabGOFz0xPHqa/dzffatbqaa
xjAfBgNVHSMEGDAWgBRbBabGOFz0xPHqa/dzffatbqaaxjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIExhWIGVe49WABVhiAP+aLK9rQgEnbWYq0vV
lohiNFSsAiEAwdhgL9fVEWjS4rnKgcZv2HfH8rgBLWYnfSy/LDFpm6U=
-----END CERTIFICATE-----
`
