// Package queries holds the benchmarks' SQL, one statement or script per file.
package queries

import (
	"embed"
	"fmt"
)

//go:embed *.sql
var files embed.FS

// Get returns the text of a file, named without its extension. It panics if there is no such file.
func Get(name string) string {
	text, err := files.ReadFile(name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("read query: %v", err))
	}
	return string(text)
}
