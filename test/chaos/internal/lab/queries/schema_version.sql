update pgdispatch.schema_migrations set version = version + $1::integer
