package lab

import (
	"embed"

	"github.com/pgdispatch/pgdispatch/test/internal/queries"
)

//go:embed queries/*.sql
var files embed.FS

// Query returns one of the benchmarks' statements or scripts.
func Query(name string) string { return queries.Get(files, "queries/"+name) }

// Params are the params of every item.
const Params = `{"orderId": 4711, "customer": "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01", "express": true}`
