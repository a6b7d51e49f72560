package web

import (
	"html/template"
	"strings"
)

// docs is where the documentation is read.
const docs = "https://github.com/pgdispatch/pgdispatch/blob/main/docs/"

// remedies are the pages, here or of the documentation, that stand for commands.
var remedies = []struct{ command, to, text string }{
	{"pgdispatch settings set", Prefix + "settings", "on the settings page"},
	{"pgdispatch dead list", Prefix + "dead", "see the dead letters"},
	{"pgdispatch status", Prefix + "workspaces?sort=oldest", "the list of workspaces"},
	{"pgdispatch doctor", docs + "operating.md#doctor", "doctor"},
	{"pgdispatch run", docs + "deploy.md", "the guide to deployment"},
	{"pgdispatch items", docs + "operating.md#items-and-workspaces", "retry its items"},
	{"pgdispatch executions terminate", docs + "operating.md#items-and-workspaces", "terminate them"},
}

// remedy escapes text. Commands between backticks become links to what explains or does the same, anything else between
// backticks code.
func remedy(text string) template.HTML {
	var out strings.Builder
	for n, part := range strings.Split(text, "`") {
		if n%2 == 0 {
			out.WriteString(template.HTMLEscapeString(part))
			continue
		}
		out.WriteString(code(part))
	}
	return template.HTML(out.String()) // escaped above
}

func code(text string) string {
	for _, r := range remedies {
		if strings.HasPrefix(text, r.command) {
			return `<a href="` + r.to + `">` + r.text + `</a>`
		}
	}
	return "<code>" + template.HTMLEscapeString(text) + "</code>"
}
