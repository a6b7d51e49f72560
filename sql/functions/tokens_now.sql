-- How many starts a lane's rate limit allows by now: what was left, and what has come since. A second's worth is kept at most, and
-- always one. In SQL without a search_path of its own, so that it becomes part of the statements that call it.
create or replace function pgdispatch.tokens_now(starts_per_second double precision, tokens double precision, tokens_at timestamptz, at_time timestamptz)
returns double precision
language sql immutable
as $$
    select case when starts_per_second is null then 1e9
                else least(greatest(starts_per_second, 1),
                           tokens + starts_per_second * greatest(extract(epoch from at_time - tokens_at), 0)) end
$$;
