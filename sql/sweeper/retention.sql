-- Deletes what ended long ago.

-- name: delete_finished
-- writes, by deleting finished items, dead letters and executions
-- $1 how many items to look at. Deletes those whose retention is over.
select d.items, d.dead_letters, d.executions, d.more
from pgdispatch.delete_finished($1::integer) d

-- function: delete_finished
-- Deletes items whose retention is over, with their executions and history. Looks at the next at_most items, and
-- returns what it deleted and whether there is more to look at. A retention that is null keeps its items forever.
--
-- It walks the primary key, because an index on finished_at would cost every completed item an entry. A pass ends at
-- items that are too young; the next pass begins a minute later. One transaction at a time walks, and the others return
-- at once. A locked row is left for the next pass.
create or replace function pgdispatch.delete_finished(at_most integer, out items integer, out dead_letters integer, out executions integer,
    out more boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    keep interval;
    keep_dead interval;
    at_time constant timestamptz := clock_timestamp();
    youngest timestamptz;
    ahead timestamptz; -- a later time is from before the clock was set back
    walked_to bigint;
    looked_at bigint[];
    passed_over boolean;
begin
    items := 0; dead_letters := 0; executions := 0; more := false;
    select s.retention, s.dead_letter_retention into keep, keep_dead from pgdispatch.settings s;
    youngest := at_time - least(keep, keep_dead);
    ahead := at_time + least(keep, keep_dead);
    if youngest is null then
        return;
    end if;
    select w.after_id into walked_to from pgdispatch.retention_walk w where w.next_pass_at <= clock_timestamp() for update skip locked;
    if not found then
        return;
    end if;

    -- An item younger than this cannot have been finished for longer.
    select array_agg(x.id), count(*) = at_most and bool_and(x.created_at < youngest or x.created_at > ahead), max(x.id)
    into looked_at, more, walked_to
    from (
        select q.id, q.created_at from pgdispatch.workflow_execution_queue q where q.id > walked_to order by q.id limit at_most
    ) x;
    more := coalesce(more, false);
    update pgdispatch.retention_walk
    set after_id = case when more then walked_to else 0 end,
        next_pass_at = case when more then next_pass_at else clock_timestamp() + interval '1 minute' end;

    perform pgdispatch.bring_back_ended(looked_at, at_time, ahead);

    -- Lock first, then read the marks in a separate statement, as in see_to.
    looked_at := array(
        select q.id from pgdispatch.workflow_execution_queue q
        where q.id = any (looked_at) and q.status in ('COMPLETED', 'CANCELLED', 'FAILED') and q.finished_at < youngest
        order by q.id
        for update skip locked);
    with over as materialized (
        select q.id, q.execution_id, q.status
        from pgdispatch.workflow_execution_queue q
        left join pgdispatch.dead_letter_marks m on m.item_id = q.id
        left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where q.id = any (looked_at)
          and case
                  when q.status <> 'FAILED' then q.finished_at < clock_timestamp() - keep
                  -- A handled dead letter is kept from then on as long as any other item.
                  else q.finished_at < clock_timestamp() - keep_dead
                       or (m.item_id is not null and r.status is distinct from 'CANCELLED' and m.marked_at < clock_timestamp() - keep)
              end
    ), deleted as (
        delete from pgdispatch.workflow_execution_queue q where q.id = any (array(select o.id from over o))
    ), ended as (
        delete from pgdispatch.workflow_executions e
        where e.id = any (array(select o.execution_id from over o)) and e.finished_at is not null
        returning e.id
    )
    select count(*) filter (where o.status <> 'FAILED'), count(*) filter (where o.status = 'FAILED'), (select count(*) from ended)
    into items, dead_letters, executions
    from over o;
end;
$$;
