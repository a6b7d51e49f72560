-- Executions that run according to the database, and that Temporal does not find: see complete.Missing.

-- name: missing
-- writes what is missing in temporal
-- $1 execution, $2 retention of its namespace. Notes that Temporal did not find it, and returns for how long, whether its
-- end may have been forgotten, who gave it up (''), and how many young executions of its namespace are missing, of how many
-- that are watched. No row if it has ended.
with open as materialized (
    select e.id, e.namespace, e.started_at, clock_timestamp() as at_time from pgdispatch.workflow_executions e
    where e.id = $1::text::uuid and e.finished_at is null and e.status = 'RUNNING'
), others as materialized (
    select m.missing, m.watched from open o cross join lateral pgdispatch.missing_in(o.namespace, o.id) m
), noted as (
    insert into pgdispatch.missing_executions as m (execution_id, since, asked_at, young)
    select o.id, o.at_time, o.at_time, o.started_at > o.at_time - $2::interval from open o
    on conflict (execution_id) do update
    set since = case when m.asked_at > excluded.asked_at - interval '3 minutes' then least(m.since, excluded.since) else excluded.since end,
        asked_at = excluded.asked_at, young = excluded.young
    returning m.since, m.asked_at, m.young, m.given_up_by
)
select n.asked_at - n.since as missing_for, n.young, coalesce(n.given_up_by, '') as given_up_by,
       o.missing + n.young::integer as missing, o.watched + 1 as watched
from noted n cross join others o

-- name: found
-- writes what is missing in temporal
-- $1 execution. Temporal finds it again.
delete from pgdispatch.missing_executions m where m.execution_id = $1::text::uuid

-- function: missing_in
-- How many young executions of a namespace Temporal does not find, of how many that it is asked about, without the given
-- one. Reads at most 1,000 open executions.
create or replace function pgdispatch.missing_in(of_namespace text, without uuid, out missing bigint, out watched bigint)
language sql stable
as $$
    select count(*) filter (where m.young and m.asked_at > clock_timestamp() - interval '3 minutes'),
           count(*) filter (where o.watcher is not null or m.execution_id is not null)
    from (
        select e.id, e.watcher from pgdispatch.workflow_executions e
        where e.finished_at is null and e.status = 'RUNNING' and e.namespace is not distinct from of_namespace
          and e.id is distinct from without
        limit 1000
    ) o
    left join pgdispatch.missing_executions m on m.execution_id = o.id
$$;

-- function: vanished
-- The namespaces in which so many executions are missing at once that it is no chance: see complete.Missing. Its limits are
-- those of complete.Note.
create or replace function pgdispatch.vanished() returns text[]
language sql stable
as $$
    select coalesce(array_agg(coalesce(n.namespace, '')), '{}')
    from (
        select e.namespace from pgdispatch.missing_executions m
        join pgdispatch.workflow_executions e on e.id = m.execution_id
        -- A watched one is asked about every 10 seconds, others once a minute. A later time is from before the clock was set back.
        where m.young and e.finished_at is null and m.asked_at < clock_timestamp() + interval '90 seconds'
          and m.asked_at > clock_timestamp() - case when e.watcher is not null then interval '30 seconds' else interval '90 seconds' end
        group by e.namespace
        having count(*) >= 3
    ) n
    cross join lateral pgdispatch.missing_in(n.namespace, null) i
    where i.missing >= 3 and 2 * i.missing >= i.watched
$$;
