-- For bring_back: the starts that rates count happened now, and parked items are tried now. Only claims write the first
-- two, so they wait.
create or replace function pgdispatch.bring_back_rates(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    brought integer;
begin
    if not exists (select from pgdispatch.rates r where r.at > soon)
       and not exists (select from pgdispatch.limit_starts s where s.until > soon + s.per / 20)
       and not exists (select from pgdispatch.parked_items p where p.try_at > soon + least(p.tries, 15) * interval '1 minute') then
        return 0;
    end if;
    lock table pgdispatch.claim_lock in share row exclusive mode;
    with buckets as (
        update pgdispatch.rates set at = at_time
        where {{ template "parts/ahead.sql" "rates a where a.at > soon" }}
        returning 1
    ), parked as (
        update pgdispatch.parked_items set try_at = at_time
        where {{ template "parts/ahead.sql" "parked_items a where a.try_at > soon + least(a.tries, 15) * interval '1 minute'" }}
        returning 1
    ), starts as (
        delete from pgdispatch.limit_starts
        where {{ template "parts/ahead.sql" "limit_starts a where a.until > soon + a.per / 20" }}
        returning limit_id, per, items
    ), counted as (
        insert into pgdispatch.limit_starts as s (limit_id, per, until, items)
        select d.limit_id, d.per, date_bin(d.per / 20, at_time, timestamptz '2000-01-01 00:00Z') + d.per / 20, sum(d.items)
        from starts d
        group by d.limit_id, d.per
        on conflict (limit_id, per, until) do update set items = s.items + excluded.items
    )
    select count(*) into brought from (select 1 from buckets union all select 1 from parked union all select 1 from starts) b;
    return brought;
end;
$$;
