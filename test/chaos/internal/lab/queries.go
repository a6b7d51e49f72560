package lab

import (
	"embed"

	"github.com/pgdispatch/pgdispatch/test/internal/queries"
)

//go:embed queries/*.sql
var files embed.FS

// Query returns one of the harness's statements or scripts. They use what applications use: the documented tables,
// columns and functions. In addition, audit.sql reads two columns of an item that no application reads.
func Query(name string) string { return queries.Get(files, "queries/"+name) }
