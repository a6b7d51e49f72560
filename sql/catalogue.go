package sql

import "strings"

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
		case unqualified(o.Definition) != unqualified(want.Definition):
			want.Problem = "altered"
		default:
			continue
		}
		defects = append(defects, want)
	}
	return defects
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
