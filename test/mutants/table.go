package main

import (
	"cmp"
	"fmt"
	"strings"
)

const row = "%-50s %-42s %-70s %-9s %4s  %-5s  %s"

func heading() string {
	return strings.TrimRight(fmt.Sprintf(row, "without", "in", "test", "went", "s", "check", "the mutant"), " ")
}

func (r result) line() string {
	test := strings.TrimPrefix(r.mutant.pkg, "./") + "." + r.mutant.test
	return fmt.Sprintf(row, r.mutant.name, short(r.mutant), test, r.verdict,
		fmt.Sprintf("%.0f", r.took.Seconds()), r.check(), cmp.Or(r.seed(), r.mutant.instead))
}

func (r result) check() string {
	if r.verdict.pass() {
		return "PASS"
	}
	return "FAIL"
}

func short(m mutant) string {
	return strings.Join(m.places(), ", ")
}

const introduction = `# Mutants

Each guard below was removed, and the named test run without it. "hung" and "crashed" also count as red.

| guard | in | without it | test that went red | check |
| --- | --- | --- | --- | --- |
`

// page returns the table in Markdown. It contains no times, so that runs can be compared.
func page(results []result) string {
	var out strings.Builder
	out.WriteString(introduction)
	for _, r := range results {
		files := r.mutant.places()
		for n, file := range files {
			files[n] = "`" + file + "`"
		}
		check := r.check()
		if !r.verdict.pass() {
			check += ", " + string(r.verdict)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | `%s` in `%s` | %s |\n",
			r.mutant.name, strings.Join(files, ", "), r.mutant.instead,
			r.mutant.test, strings.TrimPrefix(r.mutant.pkg, "./"), check)
	}
	fmt.Fprintf(&out, "\n%d mutants.\n", len(results))
	return out.String()
}
