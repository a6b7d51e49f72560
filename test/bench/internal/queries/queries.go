// Package queries holds the benchmarks' SQL, one statement or script a file.
package queries

import (
	"embed"
	"fmt"
)

//go:embed *.sql
var files embed.FS

// Get returns the text of a file, without its ending in the name. A name that there is not is a mistake in the program.
func Get(name string) string {
	text, err := files.ReadFile(name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("read query: %v", err))
	}
	return string(text)
}
