package web

import (
	"net/http"
	"strings"
)

// linked adds Base to the links of a page. Templates and handlers write links from Prefix on. Text of others cannot be
// taken for a link, because its quotation marks are escaped.
func (s *Site) linked(html string) string {
	if s.Base == "" {
		return html
	}
	return strings.NewReplacer(
		`href="`+Prefix, `href="`+s.Base+Prefix, `src="`+Prefix, `src="`+s.Base+Prefix,
		`action="`+Prefix, `action="`+s.Base+Prefix, `data-stream="`+Prefix, `data-stream="`+s.Base+Prefix,
	).Replace(html)
}

// redirect sends the browser to a page.
func (s *Site) redirect(w http.ResponseWriter, r *http.Request, to string) {
	http.Redirect(w, r, s.Base+to, http.StatusSeeOther)
}
