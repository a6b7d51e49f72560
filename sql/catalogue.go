package sql

import (
	"regexp"
	"strings"
)

// Object is a part of the schema as the server's catalogue describes it. Problem is what keeps it from working, or
// empty.
type Object struct{ Kind, Name, Definition, Problem string }

// CatalogueText is the statement that reads all Objects.
func CatalogueText() string { return Text("doctor_catalogue") }

// SequencesText is the statement that reads the sequences that are behind their tables.
func SequencesText() string { return Text("doctor_sequences") }

// Catalogue returns the objects of a schema that was migrated to the newest version, as `make golden` has read them.
func Catalogue() []Object {
	var all []Object
	for line := range strings.Lines(read("schema/catalogue.golden")) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		all = append(all, Object{Kind: parts[0], Name: parts[1], Definition: parts[2]})
	}
	return all
}

// Defects returns the objects of Catalogue that a database lacks or has otherwise, with what is wrong. found is what
// CatalogueText has read from it. Others that the database has do no harm.
func Defects(found []Object) []Object {
	has := map[string]Object{}
	for _, o := range found {
		has[o.Kind+unqualified(o.Name)] = o
	}
	var defects []Object
	for _, want := range Catalogue() {
		o, exists := has[want.Kind+unqualified(want.Name)]
		switch {
		case !exists:
			want.Problem = "missing"
		case o.Problem != "":
			want.Problem = o.Problem
		case !sameMeaning(o.Definition, want.Definition):
			want.Problem = "altered"
		default:
			continue
		}
		defects = append(defects, want)
	}
	return defects
}

// sameMeaning reports whether two definitions differ only in how the server writes them: a constraint that was restored
// from a dump has been parsed once more, and `a between 1 and 9 and b` has then lost the parentheses around its first
// part.
func sameMeaning(a, b string) bool {
	return a == b || canonical(unqualified(a)) == canonical(unqualified(b))
}

// expression is a token, or what is in a pair of parentheses.
type expression struct {
	token string
	parts []expression // of a pair of parentheses
	group bool
}

// tokens are string constants, quoted identifiers, words and numbers, and other characters.
var tokens = regexp.MustCompile(`'(?:[^']|'')*'|"(?:[^"]|"")*"|[\pL\pN_.$]+|\S`)

// canonical returns a definition without parentheses that change nothing.
func canonical(definition string) string {
	words := tokens.FindAllString(definition, -1)
	var text strings.Builder
	for _, part := range flat(parse(&words)) {
		part.write(&text)
	}
	return text.String()
}

// parse takes words up to the end of the innermost pair of parentheses.
func parse(words *[]string) (parts []expression) {
	for len(*words) > 0 {
		word := (*words)[0]
		*words = (*words)[1:]
		switch word {
		case "(":
			parts = append(parts, expression{parts: flat(parse(words)), group: true})
		case ")":
			return parts
		default:
			parts = append(parts, expression{token: word})
		}
	}
	return parts
}

// flat removes the parentheses around all of a list, and around a conjunction within a conjunction or a disjunction
// within a disjunction.
func flat(parts []expression) []expression {
	for len(parts) == 1 && parts[0].group {
		parts = parts[0].parts
	}
	connector := connectorOf(parts)
	var all []expression
	for n, part := range parts {
		whole := (n == 0 || parts[n-1].token == connector) && (n == len(parts)-1 || parts[n+1].token == connector)
		if connector != "" && part.group && whole && connectorOf(part.parts) == connector {
			all = append(all, part.parts...)
			continue
		}
		all = append(all, part)
	}
	return all
}

// connectorOf returns what joins the parts, AND or OR. It returns "" if nothing does, or both, or if something else may
// bind them.
func connectorOf(parts []expression) (connector string) {
	for _, part := range parts {
		switch part.token {
		case "AND", "OR":
			if connector != "" && connector != part.token {
				return ""
			}
			connector = part.token
		case "CASE", "BETWEEN", ",":
			return ""
		}
	}
	return connector
}

func (e expression) write(to *strings.Builder) {
	if !e.group {
		to.WriteString(e.token + " ")
		return
	}
	to.WriteString("( ")
	for _, part := range e.parts {
		part.write(to)
	}
	to.WriteString(") ")
}

// unqualified removes the schema, which the server leaves out if it is in the search_path.
func unqualified(text string) string { return strings.ReplaceAll(text, "pgdispatch.", "") }

// Repair returns the statements that make a missing or invalid index anew while clients write, or that restore the
// default and the NOT NULL of a column. Nil for other defects.
func (o Object) Repair() []string {
	if o.Kind == "column" && o.Problem == "altered" {
		return o.repairColumn()
	}
	if o.Kind != "index" || o.Problem == "altered" || strings.HasSuffix(o.Name, "_pkey") {
		return nil
	}
	return []string{"drop index concurrently if exists pgdispatch." + o.Name,
		strings.Replace(o.Definition, "INDEX ", "INDEX CONCURRENTLY ", 1)}
}

// repairColumn returns the statements that restore what mappers drop from a column that must not be null. Rows without
// a value get the default.
func (o Object) repairColumn() []string {
	table, column, _ := strings.Cut(o.Name, ".")
	_, fallback, mandatory := strings.Cut(o.Definition, " not null")
	fallback = strings.TrimSpace(fallback)
	if !mandatory || strings.HasPrefix(fallback, "generated ") {
		return nil
	}
	alter := "alter table pgdispatch." + table + " alter column " + column
	var statements []string
	if fallback != "" {
		statements = []string{alter + " set default " + fallback,
			"update pgdispatch." + table + " set " + column + " = default where " + column + " is null"}
	}
	return append(statements, alter+" set not null")
}
