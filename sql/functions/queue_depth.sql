-- The queue as a whole. Counts at most at_most of the waiting items and of the slot holders; if there are more, the
-- statistics of their index give an estimate. Leased items are the newest holders, so they are counted among ten times
-- as many of the newest. Dead letters are counted among the newest failures; dead_is_all is true if those are all
-- failures.
create or replace function pgdispatch.queue_depth(at_most integer)
returns table (pending bigint, claimed bigint, dispatched bigint, dead bigint, dead_is_all boolean, oldest_waiting interval,
    replicas bigint, max_claims integer, paused boolean)
language sql stable
-- Uses indexes that need no sorting, whatever the tables looked like at their last ANALYZE. Otherwise all rows are
-- read.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
-- A disabled plan type costs 10^10, which would compile the statement with JIT for most of a second.
set jit = off
as $$
    with waiting as materialized (
        {{ template "parts/earliest.sql" "at_most" }}
    ), unanswered as materialized (
        select q.run_at from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' limit at_most
    ), holders as materialized (
        select from pgdispatch.workflow_execution_queue q where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0
        order by q.lease_token desc
        limit at_most
    ), newest as materialized (
        select q.status from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
        order by q.lease_token desc
        limit 10 * at_most
    ), failures as materialized (
        select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc, q.id desc limit at_most
    ), dead as materialized (
        -- As in failed_items, whose join could start from all failures. One by one, because otherwise all marks are
        -- read for each failure if there were few at the last ANALYZE.
        select from failures n
        left join lateral (select m.item_id, m.replay_id from pgdispatch.dead_letter_marks m where m.item_id = n.id offset 0) m on true
        left join lateral (select q.status from pgdispatch.workflow_execution_queue q where q.id = m.replay_id offset 0) r on true
        where m.item_id is null or r.status = 'CANCELLED'
    ), counted (waiting, unanswered, holders, claimed) as (
        select (select count(*) from waiting), (select count(*) from unanswered), (select count(*) from holders),
               (select count(*) from newest n where n.status = 'CLAIMED')
    ), about (waiting, holders) as (
        select (select c.reltuples from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue_arrivals'::regclass),
               (select c.reltuples from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue_leased'::regclass)
    )
    select case when n.waiting < at_most then n.waiting else greatest(n.waiting, about.waiting)::bigint end + n.unanswered,
           n.claimed,
           greatest(case when n.holders < at_most then n.holders else greatest(n.holders, about.holders)::bigint end - n.claimed - n.unanswered, 0),
           (select count(*) from dead),
           (select count(*) < at_most from failures),
           (select clock_timestamp() - min(w.run_at) from (select n.run_at from waiting n union all table unanswered) w
            where w.run_at <= (select clock_timestamp())), -- once, not per row
           (select count(*) from pgdispatch.replicas r where r.expires_at > clock_timestamp()),
           s.max_claims,
           s.paused
    from counted n, about, pgdispatch.settings s;
$$;
