// Package queries reads a harness's SQL, one statement or script per file.
package queries

import (
	"embed"
	"fmt"
)

// Get returns the text of a file of SQL by its path without the extension. It panics if there is no such file.
func Get(files embed.FS, path string) string {
	text, err := files.ReadFile(path + ".sql")
	if err != nil {
		panic(fmt.Sprintf("read query: %v", err))
	}
	return string(text)
}
