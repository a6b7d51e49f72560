package signin

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// pageStyle is the style of the pages that anyone may see. They load nothing, because everything below the pages' path
// takes a sign-in.
const pageStyle = `:root{color-scheme:light dark}` +
	`body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:40rem;padding:3rem 1rem;` +
	`color:#1b1f24;background:#fff}a{color:#0b57d0}h1{font-size:1.5rem}` +
	`@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}a{color:#8ab4f8}}`

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Heading}} · pgdispatch</title>
<style>` + pageStyle + `</style>
</head>
<body>
<main>
<h1>{{.Heading}}</h1>
<p>{{.Text}}</p>
<p><a href="{{.To}}">{{.Link}}</a></p>
</main>
</body>
</html>
`))

// Page is what a browser shows before a sign-in and after it.
type Page struct {
	Heading, Text string
	// Link leads to To.
	Link, To string
}

// Write answers with the page. It can be stored by no cache and framed by no site.
func (p Page) Write(w http.ResponseWriter, code int) {
	sum := sha256.Sum256([]byte(pageStyle))
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+
		base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = pageTemplate.Execute(w, p) // fails only if the client is gone
}
