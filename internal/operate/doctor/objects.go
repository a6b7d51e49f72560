package doctor

import (
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// checkObjects judges what is missing or wrong in the schema.
func checkObjects(defects []operate.SchemaDefect) Finding {
	const check = "schema objects"
	if len(defects) == 0 {
		return ok(check, "columns, constraints, indexes, triggers and functions are as this version needs them")
	}
	var list, commands []string
	for _, o := range defects {
		list = append(list, view.Printable(o.Kind+" "+o.Name)+" is "+o.Problem)
		switch {
		case o.Repair() != nil, o.Kind == "function", o.Kind == "trigger":
		case o.Kind == "index":
			commands = append(commands, "drop index concurrently if exists pgdispatch."+o.Name,
				strings.Replace(o.Definition, "INDEX ", "INDEX CONCURRENTLY ", 1))
		case o.Kind == "constraint":
			table, name, _ := strings.Cut(o.Name, ".")
			commands = append(commands, "alter table pgdispatch."+table+" add constraint "+name+" "+o.Definition)
		default:
			commands = append(commands, "make column "+o.Name+" "+o.Definition)
		}
	}
	remedy := "Run `pgdispatch migrate up`, which makes missing indexes, triggers and functions anew."
	if len(commands) > 0 {
		remedy += " Repair the rest yourself: " + shortList(commands) + "."
	}
	return Finding{check, Problem, shortList(list), "Claims may be slow, or rules may not hold.", remedy}
}
