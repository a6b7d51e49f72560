package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/pgdispatch/pgdispatch/internal/must"
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
		"postgres://app@db.example/shop?sslmode=require&sslrootcert=" + authority:   true, // libpq treats it as verify-ca
		"postgres://app@localhost/shop":                                             true,
		"postgres://app@127.1.2.3/shop?sslmode=disable":                             true,
		"postgres://app@[::1]/shop?sslmode=disable":                                 true,
		"host=/var/run/postgresql dbname=shop":                                      true,
		"postgres://app@localhost.example/shop":                                     false,
		"postgres://app@127.0.0.1.example/shop?sslmode=disable":                     false,
		"postgres://app@db.example,db2.example/shop?sslmode=verify-full":            true,
	} {
		err := Target{URL: address}.Verify()
		_, poolErr := Target{URL: address}.OpenPool(t.Context(), 1, nil)
		allowed := Target{URL: address, AllowUnverified: true}.Verify()
		require.NoError(t, allowed, address)
		if verified {
			require.NoError(t, err, address)
			require.NoError(t, poolErr, address)
			continue
		}
		for _, refusal := range []error{err, poolErr} {
			require.ErrorIs(t, refusal, local.ErrUnverified, address)
			require.ErrorContains(t, refusal, "sslmode=verify-full", address)
			require.ErrorContains(t, refusal, "PGDISPATCH_ALLOW_INSECURE_DATABASE=on", address)
		}
	}
}

// certificate is a certificate of a CA that signs nothing.
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

func TestWithoutAnAddressTheErrorSaysWhatToSet(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	t.Setenv("PGPORT", "1")
	_, err := Target{}.Connect(t.Context(), nil, nil)
	require.ErrorContains(t, err, "DATABASE_URL is not set")
	t.Setenv("PGHOST", "127.0.0.1")
	_, err = Target{}.Connect(t.Context(), nil, nil)
	require.NotContains(t, err.Error(), "DATABASE_URL is not set")
}

func TestOnlyServersBeforePostgres15AreTooOld(t *testing.T) {
	t.Parallel()
	for version, tooOld := range map[string]bool{
		"9.6.24": true, "13.0.0": true, "14.23": true, "14.23 (Debian 14.23-1.pgdg120+1)": true,
		"15beta1": false, "15.0": false, "15.18 (Debian 15.18-0+deb12u1)": false, "18.4": false, "19beta2": false,
		"": false, "unknown": false,
	} {
		err := checkVersion(version)
		if !tooOld {
			require.NoError(t, err, version)
			continue
		}
		require.EqualError(t, err,
			"Postgres "+version+" is too old for pgdispatch: upgrade the server to Postgres 15 or newer")
	}
}

func TestANewConnectionReadsItsCertificatesAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, []byte(certificate), 0o600))
	target := Target{URL: "postgres://app@db.example,db2.example/shop?sslmode=verify-full&sslrootcert=" + path}
	pool := must.Get(target.OpenPool(t.Context(), 1, nil)).In(t)
	defer pool.Close()
	first := target.Certificates()

	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).In(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), IsCA: true, BasicConstraintsValid: true}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)).In(t)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))

	connects := func() *pgx.ConnConfig {
		config := pool.Config().ConnConfig
		require.NoError(t, pool.Config().BeforeConnect(t.Context(), config))
		return config
	}
	config := connects()
	require.False(t, config.TLSConfig.RootCAs.Equal(first.RootCAs))
	require.Equal(t, "db.example", config.TLSConfig.ServerName)
	require.True(t, config.Fallbacks[0].TLSConfig.RootCAs.Equal(config.TLSConfig.RootCAs), "other hosts too")
	require.NoError(t, os.Remove(path))
	require.True(t, connects().TLSConfig.RootCAs.Equal(first.RootCAs), "the old certificates stay in use")
}

func TestTarget_ReadsUserAndPasswordFromItsFileForEachConnection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600)) }
	const first = "postgres://app:first@localhost:5432/shop"
	target := Target{URL: first, File: file}
	login := func() string {
		config := must.Get(pgx.ParseConfig(first)).In(t)
		require.NoError(t, target.renew(t.Context(), config))
		return config.User + ":" + config.Password
	}
	write(first)
	require.Equal(t, "app:first", login())
	write("postgres://app2:second@localhost:5432/shop")
	require.Equal(t, "app2:second", login())

	for _, other := range []string{"postgres://app3:x@localhost:5433/shop", "postgres://app3:x@elsewhere:5432/shop",
		"postgres://app3:x@localhost:5432/bank", "no URL at all", ""} {
		write(other)
		require.Equal(t, "app:first", login(), "another address needs a restart: %s", other)
	}
	require.NoError(t, os.Remove(file))
	require.Equal(t, "app:first", login())
}

func TestTarget_ReadsThePasswordFileForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	t.Setenv("PGPASSFILE", file)
	write := func(password string) {
		require.NoError(t, os.WriteFile(file, []byte("localhost:5432:shop:app:"+password+"\n"), 0o600))
	}
	write("first")
	target := Target{URL: "postgres://app@localhost:5432/shop"}
	config := must.Get(pgx.ParseConfig(target.URL)).In(t)
	write("second")
	require.NoError(t, target.renew(t.Context(), config))
	require.Equal(t, "second", config.Password)
}
