select pg_promote(true, 30)
