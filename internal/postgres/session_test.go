package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// odd returns a database with settings other than the defaults.
func odd(t *testing.T) (address string) {
	t.Helper()
	address = sqltest.EmptyURL(t)
	database := strings.TrimPrefix(must.Get(url.Parse(address)).In(t).Path, "/")
	conn := must.Get(pgx.Connect(t.Context(), address)).In(t)
	defer conn.Close(t.Context())
	for _, setting := range []string{"client_encoding = LATIN1", "DateStyle = 'German, DMY'", "IntervalStyle = iso_8601",
		"TimeZone = 'Asia/Kathmandu'", "bytea_output = escape", "extra_float_digits = -15", "array_nulls = off",
		"standard_conforming_strings = off", "transform_null_equals = on"} {
		must.Get(conn.Exec(t.Context(), "alter database "+database+" set "+setting)).In(t)
	}
	return address
}

func TestConnect_SetsWhatAnswersDependOn(t *testing.T) {
	must.Each(t, map[string]map[string]string{"pooled": nil, "direct": postgres.DirectSettings()},
		func(t *testing.T, settings map[string]string) {
			t.Parallel()
			conn := must.Get(postgres.Target{URL: odd(t)}.Connect(t.Context(), settings, nil)).In(t)
			defer conn.Close(t.Context())
			want := map[string]string{"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
				"standard_conforming_strings": "on"}
			for name, value := range settings {
				if name == "lock_timeout" {
					continue // shown in another unit
				}
				want[name] = value
			}
			for name, value := range want {
				var has string
				require.NoError(t, conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&has))
				require.Equal(t, value, has, name)
			}
		})
}

func TestConnect_ReadsWhatADatabasesSettingsWriteOtherwise(t *testing.T) {
	must.Each(t, map[string]map[string]string{"pooled": nil, "direct": postgres.DirectSettings()},
		func(t *testing.T, settings map[string]string) {
			t.Parallel()
			conn := must.Get(postgres.Target{URL: odd(t)}.Connect(t.Context(), settings, nil)).In(t)
			defer conn.Close(t.Context())
			at := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
			var (
				text  string
				when  time.Time
				long  time.Duration
				bytes []byte
				ratio float64
				list  []*string
			)
			require.NoError(t, conn.QueryRow(t.Context(),
				"select $1::text, $2::timestamptz, $3::interval, $4::bytea, $5::float8, $6::text[]",
				"Grüße, 世界", at, -90*time.Second, []byte("\\\x00ü"), 0.1+0.2, []*string{nil, new("NULL")},
			).Scan(&text, &when, &long, &bytes, &ratio, &list))
			require.Equal(t, "Grüße, 世界", text)
			require.True(t, at.Equal(when), when)
			require.Equal(t, -90*time.Second, long)
			require.Equal(t, []byte("\\\x00ü"), bytes)
			require.Equal(t, 0.1+0.2, ratio) //nolint:testifylint // not a digit may be lost
			require.Equal(t, []*string{nil, new("NULL")}, list)
		})
}

func TestConnect_RefusesADatabaseThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	address := must.Get(url.Parse(sqltest.EmptyURL(t))).In(t)
	name := strings.TrimPrefix(address.Path, "/") + "_latin"
	admin := must.Get(pgx.Connect(t.Context(), address.String())).In(t)
	must.Get(admin.Exec(t.Context(), "create database "+name+" encoding 'LATIN1' template template0")).In(t)
	t.Cleanup(func() {
		must.Get(admin.Exec(context.Background(), "drop database "+name+" with (force)")).In(t)
		_ = admin.Close(context.Background())
	})
	address.Path = "/" + name
	_, err := postgres.Target{URL: address.String()}.ConnectForCommand(t.Context(), nil)
	require.True(t, postgres.IsUnfit(err), err)
	require.ErrorContains(t, err, "the database's encoding is LATIN1, and pgdispatch needs UTF8")
	require.ErrorContains(t, err, "create a database with `encoding 'UTF8' template template0`")
	pool := must.Get(postgres.Target{URL: address.String()}.OpenForCommand(t.Context())).In(t)
	defer pool.Close()
	require.True(t, postgres.IsUnfit(pool.Ping(t.Context())))
}
