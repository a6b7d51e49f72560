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
// functions, which are replaced when they change; and in schema triggers, also replaced, and roles and grants, run on
// each `pgdispatch migrate up`.
//
//go:embed claim notify complete request sweeper replica operate postgres client tables schema
var files embed.FS

// dropBelow divides a migration into its way up and its way down.
const dropBelow = "---- create above / drop below ----"

// Migration is a numbered step. Its number is its position in Migrations, starting at 1.
type Migration struct {
	Name     string // file name
	Up, Down string
}

// Function creates a function, or the triggers. Running it again has no further effect.
type Function struct{ Name, Text string }

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

// Functions returns what is applied again when it changes, in order of application: the functions by name, then the
// triggers. A function may call a later one, so apply them with check_function_bodies off.
func Functions() []Function { return slices.Clone(functions()) }

var functions = sync.OnceValue(func() []Function {
	var all []Function
	for _, s := range sections() {
		if s.kind == "function" {
			all = append(all, Function{s.name, render(s.template())})
		}
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return append(all, Function{Triggers, render("schema/triggers.sql")})
})

// Roles returns the statements that `pgdispatch migrate up` runs after the functions. roles creates the roles. grants
// sets their privileges, and is run only if all roles exist.
func Roles() (roles, grants string) {
	return render("schema/roles.sql"), renderWith("schema/grants.sql", quotedFunctions())
}

// section is a part of a file, from its header to the next one.
type section struct{ room, kind, name, text string }

func (s section) template() string { return s.kind + " " + s.name }

// header begins a section.
var header = regexp.MustCompile(`(?m)^-- (name|function): (\w+)\n`)

// split returns what a file has above its sections, and the sections.
func split(room, text string) (above string, all []section) {
	headers := header.FindAllStringSubmatchIndex(text, -1)
	if headers == nil {
		return text, nil
	}
	for n, h := range headers {
		end := len(text)
		if n+1 < len(headers) {
			end = headers[n+1][0]
		}
		all = append(all, section{room, text[h[2]:h[3]], text[h[4]:h[5]], strings.TrimSpace(text[h[1]:end]) + "\n"})
	}
	return text[:headers[0][0]], all
}

// sections returns the sections of all files.
var sections = sync.OnceValue(func() []section {
	var all []section
	for _, room := range rooms {
		for _, file := range glob(room + "/*.sql") {
			_, found := split(room, read(file))
			all = append(all, found...)
		}
	}
	return all
})

// templates holds the sections by kind and name, what the files define for them, and the other files by path.
var templates = sync.OnceValue(func() *template.Template {
	all := template.New("")
	for _, pattern := range []string{"*/*.sql", "tables/*/*.sql"} {
		for _, file := range glob(pattern) {
			above, _ := split("", read(file))
			template.Must(all.New(file).Parse(above))
		}
	}
	template.Must(all.New("start_options").Parse(read("client/start_options.json")))
	for _, s := range sections() {
		template.Must(all.New(s.template()).Parse(s.text))
	}
	return all
})

func read(file string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic(err) // unreachable: the folders are embedded
	}
	return string(text)
}

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

func render(name string) string { return renderWith(name, nil) }

func renderWith(name string, data any) string {
	var text strings.Builder
	if err := templates().ExecuteTemplate(&text, name, data); err != nil {
		panic(err) // any test with a database renders every section
	}
	return text.String()
}
