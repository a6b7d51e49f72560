package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

func TestRedactHidesPasswords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"cannot parse `postgres://app:secret@db:5432/shop`: bad port",
		"cannot parse `postgresql://app:secret@db/shop?sslmode=x`: bad sslmode",
		"dial postgres://secret@db/shop: refused",
		"two of them: postgres://a:secret@db/x and postgres://b:secret@db/y",
		"cannot parse `host=db user=app password=secret dbname=shop`: bad keyword",
		"cannot parse `host=db password='secret and more' user=app`: bad keyword",
		"cannot parse `postgres://db/shop?password=secret`: bad keyword",
		"cannot parse `password=secret`",
	} {
		clean := Redact(errors.New(text)).Error()
		require.NotContains(t, clean, "secret", text)
		require.NotContains(t, clean, "and more", text)
	}
}

func TestRedactLeavesTheRestAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"connection refused",
		"dial tcp 127.0.0.1:5432: connect: connection refused",
		"failed to connect to `user=app database=shop`: server error: FATAL: password authentication failed for user \"app\"",
		"postgres://db:5432/shop: no such host",
	} {
		err := fmt.Errorf("open pool: %w", errors.New(text))
		require.Equal(t, err, Redact(err), "an error without credentials is unchanged")
	}
	clean := Redact(errors.New("cannot parse `postgres://app:secret@db:5432/shop`: bad port")).Error()
	require.Contains(t, clean, "@db:5432/shop`: bad port")
}

func TestRedactHidesAnAddressThatIsNoURL(t *testing.T) {
	t.Parallel()
	address := strings.Join([]string{"postgres://app:secret@db", "port/shop"}, ":")
	_, err := url.Parse(address)
	require.Error(t, err)
	require.NotContains(t, Redact(fmt.Errorf("DATABASE_URL: %w", err)).Error(), "secret")
}

// pgx's own error for an address that it cannot parse.
func TestErrorsOfBadAddressesHideThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://app:secret@db:port/shop",
		"postgres://app:secret@db/shop?sslmode=nonsense",
		"postgres://app:sec%zzsecret@db/shop",
		"host=db user=app password=secret port=nonsense",
		"host=db user=app password='secret and more' connect_timeout=x",
		"password=secret nonsense",
	} {
		_, err := pgx.ParseConfig(address)
		require.Error(t, err, address)
		require.NotContains(t, Redact(err).Error(), "secret", address)
		require.NotContains(t, Redact(err).Error(), "and more", address)
		_, err = Target{URL: address}.OpenPool(t.Context(), 1, nil)
		require.ErrorContains(t, err, "DATABASE_URL: ")
		require.NotContains(t, err.Error(), "secret", address)
	}
}

func TestRedactHidesAwkwardPasswords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"host=db password = s3cret dbname=shop",
		`host=db PASSWORD='it\'s s3cret' dbname=shop`,
		"cannot parse `postgres://app:p@s3cret@db:5432/shop`",
	} {
		require.NotContains(t, Redact(errors.New(text)).Error(), "s3cret")
	}
}

func TestAnErrorOfAConnectionSaysItsCauseOnceAndFirst(t *testing.T) {
	t.Parallel()
	_, err := pgx.Connect(t.Context(), "postgres://app:secret@127.0.0.1:1/shop") // tried with TLS and without
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(err.Error(), "refused"))
	err = Redact(fmt.Errorf("find names: %w", err))
	require.EqualError(t, err, `connection refused: cannot connect to 127.0.0.1:1 (127.0.0.1) as "app", database "shop": `+
		"find names")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.True(t, IsUnavailable(err))
	require.Equal(t, err, Redact(err))

	_, err = pgx.Connect(t.Context(), "host=127.0.0.1,localhost port=1,2 user=app database=shop sslmode=disable")
	text := Redact(err).Error()
	require.Equal(t, 1, strings.Count(text, "refused"), text)
	require.Contains(t, text, "127.0.0.1:1 (127.0.0.1), 127.0.0.1:2 (localhost) as")

	_, err = pgx.Connect(t.Context(), "postgres://app@nowhere.invalid/shop")
	require.Regexp(t, `^lookup nowhere\.invalid.*: cannot connect to Postgres as "app", database "shop"$`,
		Redact(err).Error())
	plain := errors.New("another")
	require.Equal(t, plain, Redact(plain))
}

var nastyTexts = map[string]struct{ text, clean string }{
	"plain":                  {"connection refused", "connection refused"},
	"nothing":                {"", ""},
	"blanks only":            {" \t\r\n ", ""},
	"several lines":          {"one\r\ntwo\n\tthree", "one  two  three"},
	"NUL":                    {"a\x00b", "a\uFFFDb"},
	"NUL only":               {"\x00", "\uFFFD"},
	"invalid UTF-8":          {"a\xff\xfe\xc3(b", "a\uFFFD(b"},
	"half a rune":            {"日本\xe6\x97", "日本\uFFFD"},
	"a surrogate":            {"a\xed\xa0\x80b", "a\uFFFDb"},
	"ANSI":                   {"\x1b[2J\x1b]0;title\x07red", "\uFFFD[2J\uFFFD]0;title\uFFFDred"},
	"C1 controls":            {"a\u0085b\u009bc", "a\uFFFDb\uFFFDc"},
	"bidi":                   {"a\u202eb\u2066c\u200fd\u061ce", "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe"},
	"other alphabets":        {"Größe 日本語 🙂 \U0010FFFF", "Größe 日本語 🙂 \U0010FFFF"},
	"1,999 characters":       {strings.Repeat("ü", 1999), strings.Repeat("ü", 1999)},
	"2,001 characters":       {strings.Repeat("ü", 2001), strings.Repeat("ü", 1999) + "…"},
	"10 MB":                  {strings.Repeat("日", 10<<20/3), strings.Repeat("日", 1999) + "…"},
	"10 MB of NUL":           {strings.Repeat("\x00", 10<<20), strings.Repeat("\uFFFD", 1999) + "…"},
	"10 MB of invalid UTF-8": {strings.Repeat("\xff", 10<<20), "\uFFFD"},
}

func TestCleanMakesAnyTextFitToBeStoredAndShown(t *testing.T) {
	must.Each(t, nastyTexts, func(t *testing.T, c struct{ text, clean string }) {
		require.Equal(t, c.clean, Clean(c.text))
		requireClean(t, Clean(c.text))
		require.Equal(t, c.clean, Clean(c.clean), "clean text is unchanged")
	})
}

func requireClean(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.LessOrEqual(t, utf8.RuneCountInString(text), maxErrorLength)
	require.False(t, strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}))
	require.Equal(t, strings.TrimSpace(text), text)
}

func FuzzClean(f *testing.F) {
	for _, c := range nastyTexts {
		if len(c.text) < 10000 {
			f.Add(c.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean := Clean(text)
		requireClean(t, clean)
		require.Equal(t, clean, Clean(clean))
	})
}

func TestMayHaveCommitted_TellsALostAnswerFromARefusal(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, fmt.Errorf("read: %w", net.ErrClosed)} {
		require.True(t, MayHaveCommitted(lost), "%v", lost)
	}
	for _, known := range []error{nil, &pgconn.PgError{Code: LockNotAvailable}, Unexpected("no column"),
		fmt.Errorf("claim items: %w", &pgconn.PgError{Code: deadlockDetected}), &pgconn.ConnectError{}} {
		require.False(t, MayHaveCommitted(known), "%T", known)
	}
}

func TestRefusesSettings_OnlyForAnUnsupportedStartupParameter(t *testing.T) {
	t.Parallel()
	for message, refuses := range map[string]bool{
		"unsupported startup parameter: search_path":                          true,
		"unsupported startup parameter in options: search_path":               true,
		"server login has been failing, try again later (server_login_retry)": false,
		"server login has been failing, cached error: connect failed":         false,
		"query_wait_timeout":                                     false,
		"no such database: shop":                                 false,
		"client_login_timeout (server down)":                     false,
		`database "shop" is not currently accepting connections`: false,
	} {
		err := fmt.Errorf("connect: %w", &pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: message})
		require.Equal(t, refuses, RefusesSettings(err), message)
	}
}
