-- The first step of next_signals, which says what the arguments are: settles signals, and makes those due that waited
-- for them or for a start. If an epoch has begun, all signals until now are in doubt. Until its end, no other transaction
-- settles or takes any, and each statement of this one sees what the last one has committed.
create or replace function pgdispatch.settle_signals(settled bigint[], takes integer[], outcomes text[], errors text[], runs text[],
    started uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    look_again constant interval := '10 seconds';
    page constant integer := 5000;
    turn record;
    woken uuid[];
begin
    select t.looked_at, t.after_id, (t.epoch = e.id) is not true as epoch_began into turn
    from pgdispatch.signal_turn t
    left join pgdispatch.epoch e on true
    for update of t;
    if turn.epoch_began then
        insert into pgdispatch.epoch default values on conflict do nothing;
        update pgdispatch.signal_turn
        set epoch = (select e.id from pgdispatch.epoch e), doubtful_to = coalesce((select max(s.id) from pgdispatch.signals s), 0);
    end if;

    with done as (
        update pgdispatch.signals s
        set state = r.outcome, settled_at = case when r.outcome <> 'OPEN' then clock_timestamp() end, error = r.error,
            run_id = coalesce(r.run_id, s.run_id),
            next_try_at = clock_timestamp() + case when r.error is null then interval '0'
                else least(interval '1 second' * 2 ^ least(s.tries - 1, 10), interval '30 seconds') end
        from unnest(settled, takes, outcomes, errors, runs) as r (id, take, outcome, error, run_id)
        where s.id = r.id and s.state = 'OPEN' and (s.tries = r.take or r.outcome = 'DELIVERED')
        returning s.execution_id, s.state
    )
    select array_agg(distinct d.execution_id) into woken
    from (select d.execution_id from done d where d.state <> 'OPEN' union all select unnest(started)) d;
    update pgdispatch.signals s set next_try_at = clock_timestamp()
    where s.next_try_at = 'infinity' and s.id = any (array(
        select (select min(o.id) from pgdispatch.signals o where o.execution_id = w.id and o.state = 'OPEN') from unnest(woken) as w (id)));

    if turn.looked_at < clock_timestamp() - look_again then
        -- Those that wait for nothing any more: the replica that was to say so died, or is of an older version, or the
        -- item ended unstarted.
        with looked as materialized (
            select s.id, s.execution_id from pgdispatch.signals s
            where s.state = 'OPEN' and s.next_try_at = 'infinity' and s.id > turn.after_id
            order by s.id limit page
        ), missed as (
            update pgdispatch.signals s set next_try_at = clock_timestamp()
            where s.id = any (array(
                select l.id from looked l
                where not exists (select from pgdispatch.workflow_execution_queue q
                                  where q.execution_id = l.execution_id and q.status in ('PENDING', 'CLAIMED'))
                  and not exists (select from pgdispatch.signals o where o.execution_id = l.execution_id and o.state = 'OPEN' and o.id < l.id)))
        )
        update pgdispatch.signal_turn
        set looked_at = clock_timestamp(), after_id = coalesce((select max(l.id) from looked l having count(*) = page), 0);
    end if;
end;
$$;
