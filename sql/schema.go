package sql

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
)

// files are the statements and the schema: numbered migrations in tables, each run once, with parts in subfolders;
// repeatable functions; and in schema triggers, also repeatable, and roles and grants, run on each
// `pgdispatch migrate up`.
//
//go:embed claim notify complete sweeper replica operate client tables functions parts schema
var files embed.FS

// dropBelow divides a migration into its way up and its way down.
const dropBelow = "---- create above / drop below ----"

// Migration is a numbered step. Its number is its position in Migrations, starting at 1.
type Migration struct {
	Name     string // file name
	Up, Down string
}

// Function is a file that creates functions, or the triggers. Running it again has no further effect.
type Function struct {
	Name string // file name without extension
	Text string
}

// SHA256 returns the hash of the text, in hexadecimal.
func (f Function) SHA256() string {
	sum := sha256.Sum256([]byte(f.Text))
	return hex.EncodeToString(sum[:])
}

// Triggers is the name of the last entry of Functions.
const Triggers = "triggers"

// Migrations returns the numbered steps in order.
func Migrations() []Migration {
	var all []Migration
	for _, file := range glob("tables/*.sql") {
		up, down, _ := strings.Cut(render(file), dropBelow)
		all = append(all, Migration{path.Base(file), strings.TrimSpace(up), strings.TrimSpace(down)})
	}
	return all
}

// Functions returns the files that are re-applied when they change, in order of application: the functions by name,
// then the triggers. A function may call a later one, so apply them with check_function_bodies off.
func Functions() []Function { return slices.Clone(functions()) }

var functions = sync.OnceValue(func() []Function {
	var all []Function
	for _, file := range append(glob("functions/*.sql"), "schema/triggers.sql") {
		all = append(all, Function{strings.TrimSuffix(path.Base(file), ".sql"), render(file)})
	}
	return all
})

// Roles returns the statements that `pgdispatch migrate up` runs after the functions. roles creates the roles. grants
// sets their privileges, and is run only if all roles exist.
func Roles() (roles, grants string) {
	return render("schema/roles.sql"), renderWith("schema/grants.sql", quotedFunctions())
}

// templates holds all files by path.
var templates = sync.OnceValue(func() *template.Template {
	all := template.New("")
	for _, pattern := range []string{"*/*.sql", "tables/*/*.sql", "parts/*.json"} {
		for _, file := range glob(pattern) {
			text, err := files.ReadFile(file)
			if err != nil {
				panic(err) // unreachable: the folders are embedded
			}
			template.Must(all.New(file).Parse(string(text)))
		}
	}
	return all
})

// quotedFunctions returns the names of all functions that Functions creates, as a list of SQL strings.
func quotedFunctions() string {
	var names []string
	for _, f := range functions() {
		for _, match := range createFunction.FindAllStringSubmatch(f.Text, -1) {
			names = append(names, "'"+match[1]+"'")
		}
	}
	return strings.Join(names, ", ")
}

var createFunction = regexp.MustCompile(`(?m)^create or replace function pgdispatch\.(\w+)\(`)

func glob(pattern string) []string {
	found, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // unreachable: the patterns are constants
	}
	return found
}

func render(file string) string { return renderWith(file, nil) }

func renderWith(file string, data any) string {
	var text strings.Builder
	if err := templates().ExecuteTemplate(&text, file, data); err != nil {
		panic(err) // any test with a database renders every file
	}
	return text.String()
}
