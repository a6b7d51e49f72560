package postgres

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/stretchr/testify/require"
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
