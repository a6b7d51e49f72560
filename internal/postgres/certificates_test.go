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
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

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
