-- $1 executions.
select pgdispatch.finish(e, 'COMPLETED') from unnest($1::uuid[]) e
