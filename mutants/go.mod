module github.com/pgdispatch/pgdispatch/mutants

go 1.26.0
