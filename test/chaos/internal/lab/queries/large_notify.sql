select count(pg_notify('pgdispatch', repeat('x', 7000) || n)) from generate_series(1, 100) as n
