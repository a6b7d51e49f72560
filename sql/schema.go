package sql

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template"
)

// What the schema is made of:
//
//   - migrations: numbered, each run once. They make what holds data. A file in a folder there is a piece of one.
//   - functions: one a file, repeatable; parts are put into them as templates, and cost nothing.
//   - schema: triggers, repeatable; and roles and grants, which are run each time.
//
//go:embed migrations functions parts schema
var files embed.FS

// dropBelow divides a migration into its way up and its way down.
const dropBelow = "---- create above / drop below ----"

// Migration is a numbered step. Its number is its place among Migrations, from 1 on.
type Migration struct {
	Name     string // of its file
	Up, Down string
}

// Function is a file that makes functions, or the triggers: whoever runs it again makes the same once more.
type Function struct {
	Name string // of its file, without the ending
	Text string
}

// SHA256 identifies the text, in hexadecimal digits.
func (f Function) SHA256() string {
	sum := sha256.Sum256([]byte(f.Text))
	return hex.EncodeToString(sum[:])
}

// Triggers is the name of the last of Functions.
const Triggers = "triggers"

// Migrations returns the numbered steps in their order.
func Migrations() []Migration {
	var all []Migration
	for _, file := range glob("migrations/*.sql") {
		up, down, _ := strings.Cut(render(file), dropBelow)
		all = append(all, Migration{path.Base(file), strings.TrimSpace(up), strings.TrimSpace(down)})
	}
	return all
}

// Functions returns what is made anew where it has changed, in the order of application: the functions by name, then the
// triggers. A function may call one that comes later: apply them with check_function_bodies off.
func Functions() []Function { return slices.Clone(functions()) }

var functions = sync.OnceValue(func() []Function {
	var all []Function
	for _, file := range append(glob("functions/*.sql"), "schema/triggers.sql") {
		all = append(all, Function{strings.TrimSuffix(path.Base(file), ".sql"), render(file)})
	}
	return all
})

// Roles returns what `pgdispatch migrate up` runs after the functions: the first makes the roles, the second, where they are
// there, says what each may do.
func Roles() (roles, grants string) {
	return render("schema/roles.sql"), render("schema/grants.sql")
}

// templates are all files by their paths.
var templates = sync.OnceValue(func() *template.Template {
	all := template.New("")
	for _, pattern := range []string{"migrations/*.sql", "migrations/*/*.sql", "functions/*.sql", "parts/*.sql", "schema/*.sql"} {
		for _, file := range glob(pattern) {
			text, err := files.ReadFile(file)
			if err != nil {
				panic(err) // the folders are embedded above
			}
			template.Must(all.New(file).Parse(string(text)))
		}
	}
	return all
})

func glob(pattern string) []string {
	found, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the patterns are constants
	}
	return found
}

func render(file string) string {
	var text strings.Builder
	if err := templates().ExecuteTemplate(&text, file, nil); err != nil {
		panic(err) // every file is rendered by any test that has a database
	}
	return text.String()
}
