package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
)

//go:embed static
var staticFiles embed.FS

// staticPath is the path of the static files. It changes with their content.
var staticPath = Prefix + "static/" + digest() + "/"

func digest() string {
	sum := sha256.New()
	files, _ := staticFiles.ReadDir("static") // embedded, so it cannot fail
	for _, file := range files {
		text, _ := staticFiles.ReadFile("static/" + file.Name())
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// static serves a static file. A browser keeps it for good, unless a page of another version asked for it.
func static(w http.ResponseWriter, r *http.Request) {
	dir, file := path.Split(r.URL.Path)
	if dir == staticPath {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+file)
}
