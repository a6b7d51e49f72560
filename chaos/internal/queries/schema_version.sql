update pgdispatch.schema_version set version = version + $1::integer
