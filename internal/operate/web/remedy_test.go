package web

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

func TestRemediesAreLinksAndNoCommands(t *testing.T) {
	t.Parallel()
	require.Equal(t, `see <a href="`+docs+`operating.md#doctor">doctor</a> &amp; <code>&lt;b&gt;</code>`,
		string(remedy("see `pgdispatch doctor` & `<b>`")))
	text := get(t, &fakeReader{}, "/ui/").text()
	require.NotRegexp(t, `<code>pgdispatch `, text[strings.Index(text, `id="attention"`):strings.Index(text,
		`id="totals"`)])
}

func TestTheDocumentationHasWhatRemediesLinkTo(t *testing.T) {
	t.Parallel()
	for _, r := range remedies {
		page, isDoc := strings.CutPrefix(r.to, docs)
		if !isDoc {
			continue
		}
		name, anchor, _ := strings.Cut(page, "#")
		text := must.Get(os.ReadFile("../../../docs/" + name)).In(t)
		heading := regexp.MustCompile(`(?im)^#+ ` + strings.ReplaceAll(anchor, "-", " ") + `$`)
		require.True(t, anchor == "" || heading.Match(text), r.to)
	}
}
