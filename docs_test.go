package pgdispatch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

func readPage(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path)).In(t))
}

// section returns the text below a heading of a page.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, found, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// ticked returns the code in the first column of a section's table.
func ticked(table string) []string {
	names := []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		names = append(names, strings.Split(strings.Trim(row[1], "`"), "`, `")...)
	}
	slices.Sort(names)
	return names
}

func TestTroubleshootingLeadsFromEveryAlert(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/troubleshooting.md")
	alerts := []string{}
	for _, alert := range regexp.MustCompile(
		`- alert: (\w+)`).FindAllStringSubmatch(readDeploy(t, "prometheus/alerts.yml"), -1) {
		alerts = append(alerts, alert[1])
	}
	slices.Sort(alerts)
	require.Equal(t, alerts, ticked(section(t, page, "By alert")))
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fences  = regexp.MustCompile("(?s)```.*?```")
)

// anchors returns GitHub's anchors for a page's headings.
func anchors(page string) []string {
	all := []string{}
	for _, h := range heading.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

func TestEveryLinkOfTheDocsLeadsSomewhere(t *testing.T) {
	t.Parallel()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "test/*/*.md"} {
		found := must.Get(filepath.Glob(pattern)).In(t)
		pages = append(pages, found...)
	}
	for _, path := range pages {
		text := must.Get(os.ReadFile(path)).In(t)
		for _, found := range link.FindAllStringSubmatch(fences.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				err = nil
			}
			require.NoError(t, err, "%s: %s", path, found[1])
			if anchor != "" {
				require.True(t, slices.Contains(anchors(string(content)), anchor), "%s: %s has no heading %s", path, target, anchor)
			}
		}
	}
}
