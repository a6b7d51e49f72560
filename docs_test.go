package pgdispatch_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
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

// emission is a line of docs/contributing/observability.md: the name, the file that emits it, and the test that checks
// it.
var emission = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| `([^`]+)` \\| `(Test[^`]+)` \\|")

func TestWhatIsEmittedIsEmittedThereAndSeenByItsTest(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("docs/contributing/observability.md")).In(t)
	files := parse(t, true)
	tests := map[string]string{}
	for path, file := range files {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, declaration := range file.ast.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
				from, to := file.set.Position(function.Pos()).Offset, file.set.Position(function.End()).Offset
				tests[function.Name.Name] = file.text[from:to]
			}
		}
	}
	lines := emission.FindAllStringSubmatch(string(page), -1)
	require.Equal(t, strings.Count(string(page), "\n| ")-3, len(lines),
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
	page := readPage(t, "docs/logs.md")
	var code strings.Builder
	levels, messages := map[string]string{}, regexp.MustCompile("`([^`]+)`")
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([A-Z]+)[:. ]").FindAllStringSubmatch(page, -1)
	require.Greater(t, len(rows), 40)
	for _, row := range rows {
		for _, message := range messages.FindAllStringSubmatch(row[1], -1) {
			levels[message[1]] = row[2]
		}
	}
	for path, file := range parse(t, false) {
		if strings.HasPrefix(path, "cmd/devstack/") || strings.HasPrefix(path, "test/bench/") {
			continue
		}
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

// reference matches pkg.Name and pkg.Type.Member in a comment.
var reference = regexp.MustCompile(`\b([a-z]+)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?\b`)

// fileTypes are the ends of file names, which look like references.
var fileTypes = map[string]bool{"go": true, "sql": true, "md": true, "html": true, "com": true, "json": true,
	"golden": true}

// declarations returns what a package declares, and the members of its types as Type.Member.
func declarations(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
					continue
				}
				ast.Inspect(d.Recv.List[0].Type, func(node ast.Node) bool {
					if receiver, ok := node.(*ast.Ident); ok {
						names[receiver.Name+"."+d.Name.Name] = true
					}
					return true
				})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(names, spec)
				}
			}
		}
	}
	return names
}

func declare(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		ast.Inspect(s.Type, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok {
				for _, name := range field.Names {
					names[s.Name.Name+"."+name.Name] = true
				}
			}
			return true
		})
	}
}

// A comment that names something of another package must not outlive it.
func TestWhatCommentsNameExists(t *testing.T) {
	t.Parallel()
	packages := map[string][]*ast.File{}
	sources := parse(t, true)
	for path, file := range sources {
		if !strings.HasPrefix(path, "test/") && !strings.HasPrefix(path, "cmd/devstack") {
			packages[file.ast.Name.Name] = append(packages[file.ast.Name.Name], file.ast)
		}
	}
	delete(packages, "sql") // also the name of SQL files in prose
	known := map[string]map[string]bool{}
	for name, files := range packages {
		known[name] = declarations(files)
	}
	var missing []string
	for path, file := range sources {
		for _, group := range file.ast.Comments {
			for _, found := range reference.FindAllStringSubmatch(group.Text(), -1) {
				names := known[found[1]]
				if names == nil || fileTypes[found[2]] || strings.Contains(filepath.Base(path), found[1]+".") {
					continue
				}
				if !names[found[2]] || found[3] != "" && !fileTypes[found[3]] && !names[found[2]+"."+found[3]] {
					missing = append(missing, path+": "+found[0])
				}
			}
		}
	}
	require.Empty(t, missing, "comments name what does not exist")
}
