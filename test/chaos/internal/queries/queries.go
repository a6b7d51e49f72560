// Package queries holds the harness's SQL, one statement or script per file.
//
// The scripts use what applications use: the documented tables, columns and functions. In addition, audit.sql reads
// two columns of an item that no application reads.
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
