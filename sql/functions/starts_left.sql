-- How many more items of a limit may start at at_time by its rates, and in how many seconds another may once those are
-- used up. In plpgsql, and called for limits with rates only: inlined, all claims would pay for its plan.
create or replace function pgdispatch.starts_left(limit_id bigint, max_starts integer[], per interval[], at_time timestamptz)
returns double precision[]
language plpgsql stable
as $$
begin
    return (
        select array[min(w.most - w.started), coalesce(max(w.again) filter (where w.started >= w.most), min(w.again))]
        from (
            select p.most, coalesce(sum(s.items), 0) as started, extract(epoch from coalesce(min(s.until) + p.per - at_time, p.per)) as again
            from unnest(starts_left.max_starts, starts_left.per) as p (most, per)
            left join pgdispatch.limit_starts s on s.limit_id = starts_left.limit_id and s.per = p.per and s.until > at_time - p.per
            group by p.most, p.per
        ) w
    );
end;
$$;
