package main

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryMutantStillAppliesAndIsGo(t *testing.T) {
	t.Parallel()
	p := opened(t, "../..")
	names := map[string]bool{}
	for _, m := range all() {
		if names[m.name] {
			t.Errorf("two mutants are named %q", m.name)
		}
		names[m.name] = true
		texts, err := m.mutated(p)
		if err != nil {
			t.Error(err)
		}
		for file, text := range texts {
			if filepath.Ext(file) != ".go" {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
				t.Errorf("mutant %q: %v", m.name, err)
			}
		}
	}
}

func TestEveryNamedTestIsThere(t *testing.T) {
	t.Parallel()
	tests := map[string]string{}
	for _, m := range all() {
		if _, read := tests[m.pkg]; !read {
			files, err := filepath.Glob(filepath.Join("../..", m.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				tests[m.pkg] += string(text)
			}
		}
		if !strings.Contains(tests[m.pkg], "\nfunc "+m.test+"(t *testing.T) {") {
			t.Errorf("mutant %q: %s has no %s", m.name, m.pkg, m.test)
		}
	}
}

func TestJudgeKnowsARedTestFromABrokenMutant(t *testing.T) {
	t.Parallel()
	exit := &exec.ExitError{}
	for name, c := range map[string]struct {
		output string
		err    error
		want   verdict
	}{
		"green":               {"--- PASS: TestA (0.1s)\nok", nil, survived},
		"red":                 {"=== RUN   TestA\n--- FAIL: TestA (0.1s)\nFAIL", exit, red},
		"red by a subtest":    {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)", exit, red},
		"another test is red": {"=== RUN   TestA\n--- FAIL: TestAB (0.1s)\nFAIL", exit, broken},
		"hung":                {"=== RUN   TestA\npanic: test timed out after 45s", exit, hung},
		"crashed":             {"=== RUN   TestA\npanic: boom\nFAIL", exit, crashed},
		"does not build":      {"FAIL\tpkg [build failed]", exit, broken},
		"invalid SQL":         {"--- FAIL: TestA (0.1s)\n ERROR: syntax error (SQLSTATE 42601)", exit, broken},
		"another SQL error":   {"--- FAIL: TestA (0.1s)\n ERROR: no (SQLSTATE 42501)", exit, red},
		"no such test":        {"testing: warning: no tests to run\nok", nil, broken},
		"go is missing":       {"", errors.New("no such file"), broken},
	} {
		if got := judge("TestA", c.output, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// repository returns a module with a guard in Go, one in embedded text, and a test that must detect their absence.
func repository(t *testing.T, test string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/guarded\n\ngo 1.26.0\n",
		"a/guard.go": "package a\n\nimport _ \"embed\"\n\n//go:embed guard.sql\nvar text string\n\n" +
			"func guarded() bool { return true }\n",
		"a/guard.sql":   "where token = $1",
		"a/any_test.go": "package a\n\nimport \"testing\"\n\nfunc TestGuards(t *testing.T) {\n\t" + test + "\n}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func opened(t *testing.T, root string) *product {
	t.Helper()
	p, err := open(root)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var examples = []mutant{
	{"code", "", []edit{{"a.guarded", "return true", "return false"}}, "./a", "TestGuards"},
	{"embedded text", "", []edit{{"a/guard.sql", "where token = $1", ""}}, "./a", "TestGuards"},
	{"text that is no more", "", []edit{{"a/guard.sql", "where owner = $1", ""}}, "./a", "TestGuards"},
	{"no Go", "", []edit{{"a.guarded", "return true", "return 1"}}, "./a", "TestGuards"},
}

func TestAStaleMutantSaysWhereItsGuardMayBe(t *testing.T) {
	t.Parallel()
	p := opened(t, repository(t, ""))
	for want, e := range map[string]edit{
		"there is no a.guards: name the place of the guard, if it is in a.guarded":       {"a.guards", "return true", ""},
		`a.text no longer has "return true": name the place of the guard, if it is in a`: {"a.text", "return true", ""},
		`a.guarded no longer has "return 1", nor does another place: quote the guard`:    {"a.guarded", "return 1", ""},
		`a.guarded has "r" 4 times: quote more of the guard`:                             {"a.guarded", "r", ""},
	} {
		_, err := mutant{name: "guard", edits: []edit{e}}.mutated(p)
		if err == nil || !strings.Contains(err.Error(), `mutant "guard" is stale: `+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

const missesGuards = `if !guarded() || text == "" { t.Error("the guard is gone") }`

func TestGuardsInGoAndInEmbeddedSQLAreTakenAway(t *testing.T) {
	t.Parallel()
	root := repository(t, missesGuards)
	var out bytes.Buffer
	results, err := testAll(t.Context(), lab{product: opened(t, root)}, examples, &out)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []verdict{red, red, stale, broken} {
		if results[n].verdict != want {
			t.Errorf("%s: %s, want %s\n%s", results[n].mutant.name, results[n].verdict, want, results[n].output)
		}
	}
	err = summary(results, &out)
	if err == nil || err.Error() != "2 of 4 guards are not shown to be needed: text that is no more; no Go" {
		t.Error(err)
	}
	if err := summary(results[:2], &out); err != nil {
		t.Error(err)
	}
	left, err := os.ReadFile(filepath.Join(root, "a", "guard.sql"))
	if err != nil || string(left) != "where token = $1" {
		t.Errorf("the product was touched: %q %v", left, err)
	}
}

func TestAGuardThatNoTestMissesIsAnError(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	results, err := testAll(t.Context(), lab{product: opened(t, repository(t, "_ = guarded()"))}, examples[:1], &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := summary(results, &out); err == nil || results[0].verdict != survived {
		t.Error(results[0].verdict, err)
	}
	if !strings.Contains(out.String(), "code: SURVIVED: write a test that fails without the guard") {
		t.Error(out.String())
	}
	if !strings.Contains(page(results), "FAIL, SURVIVED") {
		t.Error(page(results))
	}
}

func TestTestsThatAreRedAnywayOrNotThereShowNothing(t *testing.T) {
	t.Parallel()
	missing := examples[0]
	missing.test = "TestOther"
	for name, c := range map[string]struct {
		test   string
		mutant mutant
		want   string
	}{
		"always red":   {`t.Error("always")`, examples[0], "test ./a without any mutant: exit status 1"},
		"missing test": {missesGuards, missing, "test ./a without any mutant: there is no TestOther"},
	} {
		_, err := testAll(t.Context(), lab{product: opened(t, repository(t, c.test))}, []mutant{c.mutant}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestFlagsThatSayNothingAreRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`no mutant has "nothing like it" in its name`: {"-only", "nothing like it"},
		`"heartbeat" is no flag`:                      {"heartbeat"},
	} {
		if err := do(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestChangesMadeAtRandomAreNoticedOrSurvive(t *testing.T) {
	t.Parallel()
	const text = "package a\n\nfunc guarded(a, b int, err error) bool {\n" +
		"\tif err != nil {\n\t\treturn false\n\t}\n\treturn a < b\n}\n"
	found, err := changesOfGo(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range found {
		got = append(got, text[c.at:c.end]+" -> "+c.now)
	}
	want := []string{"err != nil -> !(err != nil)", "err != nil -> false && (err != nil)", "!= -> ==", "< -> <="}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	found, err = changesOfSQL("-- name: x\nselect 1 -- < 2\nwhere a < b\n    and c\n")
	if err != nil || len(found) != 2 {
		t.Errorf("%v %v", found, err)
	}
	root := repository(t, `if !guarded() { t.Error("the guard is gone") }`)
	for now, want := range map[string]verdict{"false": red, "true || false": survived, "1": broken} {
		l := lab{product: opened(t, root)}
		file, err := l.read("a/guard.go")
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(file, "true")
		c := change{file: "a/guard.go", text: file, at: at, end: at + len("true"), now: now, packages: []string{"./a"}}
		if got, _ := l.notice(t.Context(), c); got != want {
			t.Errorf("%s: %s, want %s", now, got, want)
		}
	}
}
