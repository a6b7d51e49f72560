package doctor

import (
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// slowVacuum is what lost storage settings do.
const slowVacuum = "Vacuum runs too rarely for a frequently updated table: the table grows, and queries slow down."

// checkObjects judges what is missing or wrong in the schema.
func checkObjects(defects []operate.SchemaDefect) Finding {
	const check = "schema objects"
	if len(defects) == 0 {
		return ok(check, "all tables, columns, constraints, indexes, triggers and functions are as this version needs")
	}
	severity, restored := Warning, false
	var list, harm, commands []string
	for _, o := range defects {
		list = append(list, view.Printable(o.Kind+" "+o.Name)+" is "+o.Problem)
		means, byHand := judgeObject(o)
		if !slices.Contains(harm, means) {
			harm = append(harm, means)
		}
		if means != slowVacuum {
			severity = Problem
		}
		restored = restored || byHand == nil
		commands = append(commands, byHand...)
	}
	var remedies []string
	if restored {
		remedies = append(remedies, "Run `pgdispatch migrate up`, which makes missing indexes, triggers and functions anew.")
	}
	if len(commands) > 0 {
		remedies = append(remedies, "Repair by hand: "+shortList(commands)+".")
	}
	return Finding{check, severity, shortList(list), strings.Join(harm, " "), strings.Join(remedies, " ")}
}

// judgeObject says what a defect does, and how to repair it if `migrate up` does not.
func judgeObject(o operate.SchemaDefect) (harm string, byHand []string) {
	const broken = "Statements fail, or rules do not hold."
	table, name, _ := strings.Cut(o.Name, ".")
	alter := "alter table pgdispatch." + table
	switch o.Kind {
	case "function":
		return broken, nil
	case "trigger":
		return "Rows are not validated or announced, slots are not released, or TRUNCATE is not refused. Items wait for " +
			"the full check, which each replica makes once a minute.", nil
	case "index":
		if o.Repair() == nil {
			byHand = []string{"drop index concurrently if exists pgdispatch." + o.Name,
				strings.Replace(o.Definition, "INDEX ", "INDEX CONCURRENTLY ", 1)}
		}
		return "Claims and lists may be slow, or a key may be used twice.", byHand
	case "constraint":
		return broken, []string{alter + " add constraint " + name + " " + o.Definition}
	case "setting":
		return slowVacuum, []string{alter + " set (" + name + " = " + o.Definition + ")"}
	case "table":
		if o.Problem != "missing" {
			return slowVacuum, []string{alter + " reset (autovacuum_enabled)"}
		}
	}
	return broken, []string{strings.TrimSpace("restore " + o.Kind + " " + o.Name + " " + o.Definition)}
}
