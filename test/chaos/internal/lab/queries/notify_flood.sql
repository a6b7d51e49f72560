select pg_notify('pgdispatch', 'x')
