package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// typed sends a line of a filter.
func typed(t *testing.T, path, line, inForce string) page {
	t.Helper()
	return get(t, &fakeReader{}, path+"?filter="+url.QueryEscape(line)+"&"+inForce)
}

func TestATypedFilterLeadsToTheAddressThatSaysIt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"status:FAILED workspace:acme":                 "?status=FAILED&workspace=acme",
		" Status:failed  since:1h until:15m ":          "?since=1h&status=FAILED&until=15m",
		`workspace:"Acme Lima" definition:a:b`:         "?definition=a%3Ab&workspace=Acme+Lima",
		`workspace:"say ""hi"""definition:x`:           "?definition=x&workspace=say+%22hi%22",
		`card status:FAILED refused`:                   "?error=card+refused&status=FAILED",
		`error:card refused`:                           "?error=card+refused",
		`"start workflow: reset" 10:30 by 5" or a"b"c`: "?error=start+workflow%3A+reset+10%3A30+by+5%22+or+a%22b%22c",
		"":              "",
		` "" `:          "",
		"before:8":      "",
		"workspace:é":   "?workspace=%C3%A9",
		"status:\u3000": "",
	} {
		answer := typed(t, "/ui/items", line, "")
		if want == "" && strings.TrimSpace(line) != "" && line != ` "" ` {
			answer.is(422)
			continue
		}
		require.Equal(t, "/ui/items"+want, answer.is(303).to(), line)
	}
	require.Equal(t, "/ui/items?error=reset&status=PENDING&workspace=acme",
		typed(t, "/ui/items", "status:PENDING reset", "status=FAILED&workspace=acme&before=7&done=changed&q=x").to(),
		"it replaces and adds, from the first page")
	require.Equal(t, "/ui/dead/letters?error=no+postcode&since=24h&workspace=acme",
		typed(t, "/ui/dead/letters", `since:24h "no postcode"`, "workspace=acme&after=x").to())
}

func TestAWrongTokenIsNamedBesideTheListAsItWas(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"statsu:FAILED": "there is no filter statsu; use status, key, priority, params, workspace, definition, error, " +
			"since, until; put a text with a colon in double quotes.",
		"http://a": "there is no filter http;", "status:": "status has no value; write it after the colon, without a space.",
		`workspace:""`: "workspace has no value;", "status:DONE": "status must be one of PENDING, SCHEDULED,",
		"since:1h since:2h": "since is there twice.",
		"since:soon":        "since must be how long ago, such as 15m or 24h.",
		"since:1h until:2h": "since must be longer ago than until.", `workspace:"Acme`: "a double quote is not closed.",
		"a\x00b":                  "error must be text of up to 200 characters,",
		strings.Repeat("é ", 150): "error must be text of up to 200",
		strings.Repeat(" ", 2001): "it is longer than 2000 bytes.", "workspace:\xff": "workspace must be text",
	} {
		typed(t, "/ui/items", line, "workspace=acme").is(422).
			shows(`role="alert" id="filter-wrong">The filter was not changed: `+want,
						`aria-label="Remove the filter workspace: acme"`, `aria-label="Table of items"`).
			hides("filter=") // no link has the line
	}
	typed(t, "/ui/items", `"><script>alert(1)</script> x:y`, "").is(422).hides("<script>alert")
	typed(t, "/ui/dead/letters", "status:FAILED", "").is(422).
		shows("there is no filter status; use workspace, definition, error, since, until;")
}

func TestABulkActionHasTheFilterOfItsList(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.get("/ui/dead/letters?until=90m").shows("/ui/dead/replay?until=90m")
	require.Equal(t, 90*time.Minute, *b.read.deadFilter.Until.Ago)
}

// What is typed into a filter is understood, and shown as it was understood, or refused.
func FuzzFilter(f *testing.F) {
	for _, line := range []string{"", "status:running", `error:"a b" status:FAILED`, "status:", "x:1", `"`, "a:b:c",
		"workspace:acme workspace:b", "priority:101", "key:\x00", "since:1h until:2h", "params:{}", "STATUS:full"} {
		f.Add(line)
	}
	bar := itemBar()
	f.Fuzz(func(t *testing.T, line string) {
		filter, err := typedFilter(url.Values{}, line, bar.Names)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for name := range filter {
			require.Contains(t, bar.Names, name)
		}
		again, err := typedFilter(filter, "", bar.Names)
		require.NoError(t, err, "what is in force can be kept")
		require.Equal(t, filter, again)
	})
}

// A position in a list is read as it was written, or refused.
func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", ",", "2026-01-02T03:04:05.6Z,7", "0000-01-01T00:00:00Z,1", "2026-01-02T03:04:05Z,-1",
		"2026-01-02T03:04:05+23:59,1", "bmFu", "TmFOCjVkMGNkYjBiLTNlMGYtNGMyNS04YTNlLTdmNmQxYzdhMDAwMQphY21l"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := parseDeadKey(text); err == nil && k != nil {
			again := must.Get(parseDeadKey(formatDeadKey(*k))).In(t)
			require.True(t, k.FailedAt.Equal(again.FailedAt))
			require.Equal(t, k.ID, again.ID)
		}
		if k, err := parseKey(text); err == nil && k != nil {
			require.Equal(t, formatKey(*k), formatKey(*must.Get(parseKey(formatKey(*k))).In(t)), "a rank may be NaN")
		}
	})
}
