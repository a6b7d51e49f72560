package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutable are the directories whose code is changed at random, each with the packages whose tests must notice. Those
// are tested one after the other, until one is red.
var mutable = []struct {
	directory string
	packages  []string
}{
	{"claim", []string{"./claim"}},
	{"claim/schedule", []string{"./claim/schedule", "./test/simulation"}},
	{"complete", []string{"./complete"}},
	{"dispatch", []string{"./dispatch"}},
	{"notify", []string{"./notify"}},
	{"request", []string{"./request", "./sql"}},
	{"sweeper", []string{"./sweeper", "./sql"}},
	{"sql/claim", []string{"./claim", "./sql"}},
	{"sql/complete", []string{"./complete", "./sql"}},
	{"sql/request", []string{"./request", "./sql"}},
	{"sql/sweeper", []string{"./sweeper", "./sql"}},
}

// change replaces a part of a file, from the offset at to the offset end.
type change struct {
	file     string
	line     int
	at, end  int
	was, now string
	text     string   // of the file, before
	packages []string // that must notice
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d: %s -> %s", c.file, c.line, shortened(c.was), shortened(c.now))
}

// shortened returns a text on one line of readable length.
func shortened(text string) string {
	const most = 70
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "(nothing)"
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return text
}

// mutated returns the file's text with the change.
func (c change) mutated() map[string]string {
	return map[string]string{c.file: c.text[:c.at] + c.now + c.text[c.end:]}
}

// changes returns every change that can be made to the mutable directories, in the order of their files.
func changes(p *product) ([]change, error) {
	var all []change
	for _, m := range mutable {
		entries, err := os.ReadDir(filepath.Join(p.root, m.directory))
		if err != nil {
			return nil, fmt.Errorf("read a directory to change: %w", err)
		}
		for _, entry := range entries {
			name := entry.Name()
			of := changesOfGo
			switch {
			case strings.HasSuffix(name, "_test.go"):
				continue
			case strings.HasSuffix(name, ".sql"):
				of = changesOfSQL
			case !strings.HasSuffix(name, ".go"):
				continue
			}
			text, err := p.read(m.directory + "/" + name)
			if err != nil {
				return nil, err
			}
			found, err := of(text)
			if err != nil {
				return nil, fmt.Errorf("read %s/%s: %w", m.directory, name, err)
			}
			for n := range found {
				c := &found[n]
				c.file, c.text, c.packages = m.directory+"/"+name, text, m.packages
				c.was, c.line = text[c.at:c.end], 1+strings.Count(text[:c.at], "\n")
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// other is what an operator becomes: a comparison's bound moves by one or its sense turns, "and" becomes "or".
var other = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// changesOfGo returns the changes to a Go file. Not all of them compile.
func changesOfGo(text string) ([]change, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := goChanges{text: text, offset: func(at token.Pos) int { return set.Position(at).Offset }}
	ast.Inspect(parsed, g.add)
	return g.found, nil
}

type goChanges struct {
	text   string
	offset func(token.Pos) int
	found  []change
}

func (g *goChanges) replace(from, to token.Pos, now string) {
	g.found = append(g.found, change{at: g.offset(from), end: g.offset(to), now: now})
}

func (g *goChanges) source(n ast.Node) string { return g.text[g.offset(n.Pos()):g.offset(n.End())] }

// add adds the changes to one node.
func (g *goChanges) add(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		g.drop(n.List)
	case *ast.CaseClause:
		g.drop(n.Body)
	case *ast.CommClause:
		g.drop(n.Body)
	case *ast.IfStmt:
		g.replace(n.Cond.Pos(), n.Cond.End(), "!("+g.source(n.Cond)+")")
		if strings.Contains(g.source(n.Cond), "err != nil") {
			g.replace(n.Cond.Pos(), n.Cond.End(), "false && ("+g.source(n.Cond)+")")
		}
	case *ast.BinaryExpr:
		if now, ok := other[n.Op]; ok {
			g.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), now.String())
		}
	case *ast.CompositeLit:
		g.swap(values(n.Elts))
	case *ast.CallExpr:
		opposite, found := map[string]string{"min": "max", "max": "min"}[g.source(n.Fun)]
		switch {
		case found: // the order of their arguments means nothing
			g.replace(n.Fun.Pos(), n.Fun.End(), opposite)
		case !logged.MatchString(g.source(n)):
			g.swap(n.Args)
		}
	}
	return true
}

// logged matches calls that only write log lines, which are no part of what the tests of a package guard.
var logged = regexp.MustCompile(`(?i)^\w*\.?(\w+\.)*((log|logger|logAbout\(\w+\))\.|note\()`)

// drop drops each statement that does something.
func (g *goChanges) drop(list []ast.Stmt) {
	for _, statement := range list {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt:
		default:
			continue
		}
		if !logged.MatchString(g.source(statement)) {
			g.replace(statement.Pos(), statement.End(), "")
		}
	}
}

// swap swaps each two neighbours.
func (g *goChanges) swap(list []ast.Expr) {
	for n := 1; n < len(list); n++ {
		a, b := list[n-1], list[n]
		between := g.text[g.offset(a.End()):g.offset(b.Pos())]
		if g.source(a) != g.source(b) {
			g.replace(a.Pos(), b.End(), g.source(b)+between+g.source(a))
		}
	}
}

// values returns the values of a literal's elements.
func values(elements []ast.Expr) []ast.Expr {
	var list []ast.Expr
	for _, e := range elements {
		if keyed, ok := e.(*ast.KeyValueExpr); ok {
			e = keyed.Value
		}
		list = append(list, e)
	}
	return list
}

// sqlChanges are the changes to SQL: what is replaced, and by what. A condition after "and" or "or" ends with its line.
var sqlChanges = []struct {
	was *regexp.Regexp
	now string
}{
	{regexp.MustCompile(`(?m)^ +(?:and|or) [^\n;]*[^\n;,()]$`), ""},
	{regexp.MustCompile(`(?m)^ +perform [^\n;]*;$`), ""},
	{regexp.MustCompile(`(?m)^ +\w+(?:\.\w+)? := [^\n;]*;$`), ""},
	{regexp.MustCompile(` <= `), " < "}, {regexp.MustCompile(` < `), " <= "},
	{regexp.MustCompile(` >= `), " > "}, {regexp.MustCompile(` > `), " >= "},
	{regexp.MustCompile(` <> `), " = "}, {regexp.MustCompile(` is null\b`), " is not null"},
	{regexp.MustCompile(` is not null\b`), " is null"}, {regexp.MustCompile(`\bnot exists `), "exists "},
	{regexp.MustCompile(`\bleast\(`), "greatest("}, {regexp.MustCompile(`\bgreatest\(`), "least("},
	{regexp.MustCompile(`\bmin\(`), "max("}, {regexp.MustCompile(`\bmax\(`), "min("},
	{regexp.MustCompile(` and not `), " and "}, {regexp.MustCompile(` \+ `), " - "}, {regexp.MustCompile(` - `), " + "},
	{regexp.MustCompile(`\bif found\b`), "if not found"}, {regexp.MustCompile(`\bif not found\b`), "if found"},
	{regexp.MustCompile(` for update skip locked`), " for update"},
	{regexp.MustCompile(`\bstage = 'WAITS'`), "stage = 'HOLDS'"},
	{regexp.MustCompile(`\bstage = 'HOLDS'`), "stage = 'DOUBT'"},
	{regexp.MustCompile(`\bstage = 'DOUBT'`), "stage = 'HOLDS'"},
}

var sqlComment = regexp.MustCompile(`--[^\n]*`)

// changesOfSQL returns the changes to an SQL file, none of them in a comment.
func changesOfSQL(text string) ([]change, error) {
	comments := sqlComment.FindAllStringIndex(text, -1)
	var found []change
	for _, c := range sqlChanges {
		for _, match := range c.was.FindAllStringIndex(text, -1) {
			in := func(comment []int) bool { return match[0] < comment[1] && comment[0] < match[1] }
			if !slices.ContainsFunc(comments, in) {
				found = append(found, change{at: match[0], end: match[1], now: c.now})
			}
		}
	}
	return found, nil
}
