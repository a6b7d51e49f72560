-- How many items of a workspace may hold slots while no other workspace needs the workers. Null as burst means no more
-- than its limit. A limit of 0 starts nothing.
create or replace function pgdispatch.burst_limit(max_concurrent integer, burst integer) returns integer
language sql immutable
as $$ select case when max_concurrent > 0 then greatest(max_concurrent, burst) else max_concurrent end $$;
