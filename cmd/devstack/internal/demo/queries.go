package demo

import _ "embed"

// The demonstration's statements. They read only columns that the contract allows users to read.
var (
	//go:embed queries/board.sql
	boardQuery string
	//go:embed queries/failures.sql
	failuresQuery string
	//go:embed queries/peaks.sql
	peaksQuery string
	//go:embed queries/outcomes.sql
	outcomesQuery string
	//go:embed queries/graph.sql
	graphQuery string
	//go:embed queries/example.sql
	exampleQuery string
)
