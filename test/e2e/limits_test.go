package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func TestLimitsOfKeysAreSetListedAndRemoved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Equal(t, "no limits match; set one with `pgdispatch limits set`\n", d.types("limits", "list"))
	require.Equal(t, "smtp: max_concurrent changed from not set to 10\n"+
		"smtp: max_starts changed from not set to [10 100]\nsmtp: per changed from not set to [00:00:01 00:01:00]\n",
		d.types("limits", "set", "smtp", "--max", "10", "--rates", "10/s,100/1m", "--by", "ann"))
	d.types("limits", "set", "smtp", "--workspace", "shop", "--max", "0")
	d.types("enqueue", "order", "--workspace", "shop", "--limit-key", "smtp")
	lines := strings.Split(d.types("limits", "list"), "\n")
	require.Equal(t, []string{"KEY", "WORKSPACE", "ACTIVE/MAX", "RATES", "STARTS LEFT", "WAITING", "OLDEST", "FULL",
		"RUNNING, LAST HOUR", "WAITING, LAST HOUR"}, regexp.MustCompile(` {2,}`).Split(lines[0], -1))
	require.Regexp(t, `^smtp +\(all\) +0/10 +10/1s,100/1m +10 +1 +[0-9.]+ m?s +no\b`, lines[1])
	require.Regexp(t, `^smtp +shop +0/0 +- +- +1 +[0-9.]+ m?s +yes\b`, lines[2])
	require.Regexp(t, `(?m)^limit key +smtp$`, d.types("items", "show", "1"))
	require.Contains(t, d.types("status"), "\nfull limits 1, 1 item waits for it: smtp in shop (1)\n")
	require.NotContains(t, d.types("limits", "list", "--workspace", "shop"), "(all)")
	require.Contains(t, d.types("limits", "list", "--limit", "1"), "continue with --after 1\n")

	require.Equal(t,
		"smtp: max_starts changed from [10 100] to not set\nsmtp: per changed from [00:00:01 00:01:00] to not set\n",
		d.types("limits", "set", "smtp", "--rates", "off"))
	require.Equal(t, "smtp already has this value; nothing was changed\n", d.types("limits", "set", "smtp", "--max", "10"))
	var limits []operate.KeyLimit
	require.NoError(t, json.Unmarshal([]byte(d.types("limits", "list", "--key", "smtp", "-o", "json")), &limits))
	require.Len(t, limits, 2)
	require.Equal(t, 10, *limits[0].MaxConcurrent)

	require.Equal(t, "smtp: paused changed from false to true\n", d.types("limits", "pause", "smtp"))
	require.Regexp(t, `(?m)^smtp +\(all\) .* paused\b`, d.types("limits", "list"))
	require.Equal(t, "smtp: paused changed from true to false\n", d.types("limits", "resume", "smtp"))

	require.Equal(t, "removed the limit of smtp\n", d.types("limits", "remove", "smtp", "--by", "bob"))
	require.NotContains(t, d.types("limits", "list"), "(all)")
	audit := d.types("audit", "list")
	require.Regexp(t, `limits set +limits.*limit_key: smtp`, audit)
	require.Regexp(t, `bob.*limits remove +limits.*limit_key: smtp`, audit)
}

func TestLimitsRefuseBadInputByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for message, args := range map[string][]string{
		"nothing to set: give --max, --rates, or both":           {"set", "k"},
		`--max: the limit is "-1": it must be off or a whole`:    {"set", "k", "--max", "-1"},
		`--rates: the rate "10" must be a number of starts per`:  {"set", "k", "--rates", "10"},
		`--rates: the rate "-1/s" has -1 starts`:                 {"set", "k", "--rates", "-1/s"},
		`--rates: the rate "1/25h" has a period of 25h0m0s`:      {"set", "k", "--rates", "1/25h"},
		`--rates: the rates have the period 1m0s twice`:          {"set", "k", "--rates", "1/m,2/60s"},
		`--rates: there are 5 rates: at most 4`:                  {"set", "k", "--rates", "1/1s,1/2s,1/3s,1/4s,1/5s"},
		`the key "" must have 1 to 200 characters`:               {"set", "", "--max", "1"},
		`must have 1 to 200 characters`:                          {"set", strings.Repeat("k", 10_000), "--max", "1"},
		`--workspace: no workspace has the ID or name "nowhere"`: {"set", "k", "--max", "1", "--workspace", "nowhere"},
		`"k" has no limit there: see`:                            {"remove", "k"},
		`--by is "": it must have 1 to 200`:                      {"remove", "k", "--by", ""},
	} {
		_, stderr, code := d.tries(append([]string{"limits"}, args...)...)
		require.NotZero(t, code, message)
		require.Contains(t, stderr, message)
	}
	_, stderr, code := d.tries("enqueue", "order", "--workspace", "shop", "--limit-key", strings.Repeat("k", 201))
	require.NotZero(t, code)
	require.Contains(t, stderr, "limit_key has 201 characters: a limit key must have 1 to 200")
}
