package lint_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

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
	for _, path := range glob(t, "README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "test/*/*.md") {
		for _, found := range link.FindAllStringSubmatch(fences.ReplaceAllString(read(t, path), ""), -1) {
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

// codeLink is a link of the web view to a page.
var codeLink = regexp.MustCompile(`docs \+ "([^"#]+)#?([^"]*)"`)

func TestEveryLinkOfTheWebViewToTheDocsLeadsSomewhere(t *testing.T) {
	t.Parallel()
	links := codeLink.FindAllStringSubmatch(sources(t)["internal/operate/web/frame.go"].text, -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		page := read(t, "docs/"+link[1])
		require.True(t, link[2] == "" || slices.Contains(anchors(page), link[2]), link[0])
	}
}

// emission is a line of docs/contributing/observability.md: the name, the file that emits it, and the test that checks
// it.
var emission = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| `([^`]+)` \\| `(Test[^`]+)` \\|")

func TestWhatIsEmittedIsEmittedThereAndSeenByItsTest(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/contributing/observability.md")
	files := sources(t)
	tests := map[string]string{}
	for path, file := range files {
		if !isTest(path) {
			continue
		}
		for _, declaration := range file.ast.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
				from, to := file.set.Position(function.Pos()).Offset, file.set.Position(function.End()).Offset
				tests[function.Name.Name] = file.text[from:to]
			}
		}
	}
	lines := emission.FindAllStringSubmatch(page, -1)
	require.Equal(t, strings.Count(page, "\n| ")-3, len(lines),
		"every line of the tables except their three heads")
	for _, line := range lines {
		name, path, test := line[1], line[2], line[3]
		require.Contains(t, files, path)
		require.Contains(t, files[path].text, `"`+name+`"`, "%s does not emit it", path)
		// As a string of its own, or with a level before it or a label after it.
		require.Regexp(t, `"(?:[A-Z]+ )?`+regexp.QuoteMeta(name)+`[" ]`, tests[test], "%s does not check it", test)
	}
}

// joined matches a string literal that continues on the next line.
var joined = regexp.MustCompile("\" ?\\+\n\t+\"")

// logCall matches a call that logs a constant message, with the level that its name says.
var logCall = regexp.MustCompile(`\b(Debug|Info|Warn|Error|Log)(?:Context)?\(\s*(?:ctx,\s+)?(?:level, )?"([^"]+)"`)

// Log messages are constants, so those of the page can be looked up in the code, and those of the code on the page.
func TestThePageOfLogsHasEveryEventAtItsLevelAndNoOther(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/logs.md")
	var code strings.Builder
	levels, messages := map[string]string{}, regexp.MustCompile("`([^`]+)`")
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([A-Z]+)[:. ]").FindAllStringSubmatch(page, -1)
	require.Greater(t, len(rows), 40)
	for _, row := range rows {
		for _, message := range messages.FindAllStringSubmatch(row[1], -1) {
			levels[message[1]] = row[2]
		}
	}
	for path, file := range withoutTests(t, "cmd/devstack", "test/bench") {
		text := joined.ReplaceAllString(file.text, "")
		if !strings.HasPrefix(path, "test/") {
			code.WriteString(text)
		}
		for _, call := range logCall.FindAllStringSubmatch(text, -1) {
			level, known := levels[call[2]]
			require.True(t, known, "%s: %s", path, call[2])
			if call[1] != "Log" {
				require.Equal(t, level, strings.ToUpper(call[1]), "%s: %s", path, call[2])
			}
		}
	}
	for message := range levels {
		require.True(t, strings.Contains(code.String(), `"`+message+`"`), "nothing logs %q", message)
	}
}

func TestTroubleshootingLeadsFromEveryAlert(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/troubleshooting.md")
	alerts := []string{}
	for _, alert := range regexp.MustCompile(
		`- alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yml"), -1) {
		alerts = append(alerts, alert[1])
	}
	slices.Sort(alerts)
	require.Equal(t, alerts, ticked(section(t, page, "By alert")))
}

// verbsIn returns the statements that the first column of the page's tables names between two lines.
func verbsIn(t *testing.T, page, from, to string) (verbs []string) {
	_, rest, found := strings.Cut(page, from)
	require.True(t, found, from)
	section, _, found := strings.Cut(rest, to)
	require.True(t, found, to)
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				verbs = append(verbs, name[1])
			}
		}
	}
	slices.Sort(verbs)
	return verbs
}

func TestThePageSaysWhatACrashDoesToEachStatementOfAReplica(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/contributing/crashes.md")
	const durably = "commit_durably()"
	durable, written := []string{"claim", "claim_head", "claim_plain"}, []string{}
	for _, verb := range sql.Verbs() {
		if room := sql.Room(verb); room == "operate" || room == "client" {
			continue
		}
		text := sql.Text(verb)
		if first, _, _ := strings.Cut(text, "\n"); first == "-- reads" || strings.HasSuffix(first, "row locks only") {
			continue
		}
		written = append(written, verb)
		calls := text
		for _, f := range sql.Functions() {
			if strings.Contains(text, "pgdispatch."+f.Name+"(") {
				calls += f.Text
			}
		}
		if strings.Contains(calls, durably) {
			durable = append(durable, verb)
		}
	}
	slices.Sort(durable)
	const waiting, others = "## Statements that wait for the disk", "## Statements that do not wait"
	require.Equal(t, durable, verbsIn(t, page, waiting, others))
	undone := append(verbsIn(t, page, others, "## How it is tested"), durable...)
	slices.Sort(undone)
	require.Equal(t, written, slices.Compact(undone))
}

func TestThePageOfFaultsNamesTestsOfUpgradeAndRecoveryThatExist(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/contributing/faults.md")
	for link, file := range map[string]string{"../upgrade.md": "upgrade_test.go", "../recovery.md": "restore_test.go"} {
		named := regexp.MustCompile("`(Test\\w+)` checks\\s+[^`]*" + regexp.QuoteMeta(link)).FindStringSubmatch(page)
		require.NotNil(t, named, link)
		require.Contains(t, read(t, "test/e2e/"+file), "\nfunc "+named[1]+"(t *testing.T)")
	}
}

func TestThePageListsEveryClient(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/clients/README.md")
	files := glob(t, "docs/clients/[eE]nqueue.*")
	require.Len(t, files, 6)
	for _, path := range files {
		file := filepath.Base(path)
		require.Contains(t, page, "| ["+file+"]("+file+") |")
	}
}

func TestTheQuickStartShowsTheseWorkers(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/quickstart.md")
	for file, part := range map[string][2]string{
		"main.go":   {"go", "func SendMail"},
		"worker.py": {"python", "import asyncio"},
	} {
		_, shown, found := strings.Cut(read(t, "docs/clients/worker/"+file), part[1])
		require.True(t, found, file)
		require.Contains(t, page, "```"+part[0]+"\n"+part[1]+shown+"```\n", file)
	}
}
