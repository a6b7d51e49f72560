update pgdispatch.migrations set version = version + $1::integer
