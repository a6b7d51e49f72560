-- $1 number of items, $2 number of the first item, $3 total number of items. Inserts items that ended over the last
-- month. One in a hundred failed, and every tenth of those was discarded. Triggers are off, so that nothing is
-- notified.
with d as (
    select array_agg(w.workspace_id) as workspaces, array_agg(w.id) as definitions, count(*) as number from pgdispatch.workflow_definitions w
), made as (
    insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, status, attempt_count, claimed_at, dispatched_at,
                                                     finished_at, last_error, created_at, run_at, params)
    select d.workspaces[1 + n % d.number], d.definitions[1 + n % d.number], case when n % 100 = 7 then 'FAILED' else 'COMPLETED' end, 1, t.at, t.at, t.at + interval '9 seconds',
           case when n % 100 = 7 then 'order ' || n || ': the card of customer ' || n % 977 || ' was refused by provider ' || chr(97 + n % 23) end,
           t.at - interval '1 second', t.at - interval '1 second', '{"orderId": 42}'
    from d, generate_series($2::integer, $2::integer + $1::integer - 1) n
    cross join lateral (select now() - interval '30 days' * (1 - n::double precision / $3::integer) as at) t
    returning id, execution_id, workspace_id, workflow_definition_id, status, created_at, dispatched_at, finished_at
), executions as (
    insert into pgdispatch.workflow_executions (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, run_id, status,
                                                created_at, started_at, finished_at)
    select m.execution_id, m.id, m.workspace_id, m.workflow_definition_id, m.workflow_definition_id, 'run', m.status, m.created_at, m.dispatched_at, m.finished_at
    from made m
)
insert into pgdispatch.dead_letter_marks (item_id, mark, marked_by)
select m.id, 'DISCARDED', 'bench' from made m where m.status = 'FAILED' and m.id % 10 = 0
