-- $1 a worker's task queue, $2 number of ended items. Creates some 300 workspaces with three definitions each, and
-- their items of a month, a third of them from the last day. One item in eighty failed. Run it with triggers off, so
-- that it notifies no replica.
with companies as (
    select name, n from unnest(array['Acme', 'Bluth', 'Cyberdyne', 'Dunder', 'Globex', 'Hooli', 'Initech', 'Krusty', 'Monsters', 'Oscorp', 'Pied Piper', 'Soylent',
                                     'Stark', 'Sterling', 'Tyrell', 'Umbrella', 'Vandelay', 'Wayne', 'Weyland', 'Wonka']) with ordinality as c (name, n)
), cities as (
    select name, n from unnest(array['Accra', 'Berlin', 'Cork', 'Dakar', 'Essen', 'Fez', 'Graz', 'Hue', 'Izmir', 'Jena', 'Kyoto', 'Lima', 'Minsk', 'Nice', 'Oslo'])
        with ordinality as c (name, n)
), w as (
    insert into pgdispatch.workspaces (id, name, plan, paused)
    select gen_random_uuid(), company.name || ' ' || city.name, case company.n % 4 when 0 then 'ENTERPRISE' when 1 then 'PRO' else 'FREE' end, (company.n + city.n) % 13 = 0
    from companies company, cities city
    union all
    select id::uuid, name, 'FREE', false
    from (values (gen_random_uuid()::text, '"><script>alert(1)</script>'), ('12121212-1212-4212-8212-121212121212', 'مؤسسة الاختبار 🚀 12'),
                 (gen_random_uuid()::text, repeat('W', 200))) odd (id, name)
    returning id
), d as (
    insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
    select w.id, type, initcap(type), $1 from w, unnest(array['order', 'refund', 'export']) type
    returning id, workspace_id
), v as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select d.id, 1, '{"nodes": [{"id": "charge"}, {"id": "ship"}], "edges": [{"from": "charge", "to": "ship"}]}' from d
), all_of as (
    select array_agg(d.workspace_id) as workspaces, array_agg(d.id) as definitions, count(*) as number from d
), made as (
    insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, status, attempt_count, failure_count, created_at, run_at, claimed_at,
                                                     dispatched_at, finished_at, last_error, params)
    select o.workspaces[1 + n % o.number], o.definitions[1 + n % o.number], case when e.failed then 'FAILED' else 'COMPLETED' end, case when e.failed then 2 else 1 end,
           e.failed::integer, t.at, t.at, t.at + interval '2 ms', t.at + (4 + n % 13) * interval '1 ms', t.at + (2 + n % 50) * interval '1 second',
           case when e.failed then (array['"><img src=x onerror=alert(2)> is no currency',
                                          'card of customer ' || n % 977 || ' was refused by provider ' || chr(97 + n % 3),
                                          'activity "ship" timed out after ' || n % 60 || ' s',
                                          'address of order ' || n || ' is incomplete: no postcode'])[case when n / 80 % 40 = 0 then 1 else 2 + n / 80 % 3 end] end,
           jsonb_build_object('orderId', n, 'note', case when n % 2 = 0 then '</pre><script>alert(3)</script>' else 'a gift' end, 'total', 12345678901234567890)
    from all_of o, generate_series(1, $2::integer) n
    cross join lateral (select 3 * (1 - n::double precision / $2::integer) as left_of) l
    cross join lateral (select now() - interval '1 minute' - case when l.left_of > 1 then interval '1 day' + interval '15 days' * (l.left_of - 1)
                                                                  else interval '1 day' * (l.left_of + sin(600 * l.left_of) / 2000) end as at) t
    cross join lateral (select n % 80 = 7 as failed) e
    returning id, execution_id, workspace_id, workflow_definition_id, status, created_at, dispatched_at, finished_at, last_error
), failures as (
    insert into pgdispatch.item_failures (item_id, failure, attempt, failed_at, error, replica)
    select m.id, 1, 1, m.created_at + interval '1 ms', 'start workflow: the connection was reset', 'web-1' from made m where m.status = 'FAILED'
)
insert into pgdispatch.workflow_executions (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, run_id, status,
                                            created_at, started_at, finished_at)
select m.execution_id, m.id, m.workspace_id, m.workflow_definition_id, m.workflow_definition_id, gen_random_uuid()::text, m.status,
       m.created_at, m.dispatched_at, m.finished_at
from made m
