package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
