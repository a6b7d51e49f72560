-- writes stalls
-- $1 task queues without a poller, $2 their namespaces and $3 how many executions each has; $4 executions that were
-- asked about; $5 those of them that do not progress, $6 their namespaces and $7 why; $8 namespaces that did not
-- answer, for which nothing changes. Returns what is new, and what is over.
with over as (
    delete from pgdispatch.stalls s
    where case s.kind
              when 'TASK_QUEUE' then s.namespace <> all ($8::text[])
                   and not exists (select from unnest($1::text[], $2::text[]) as q (name, namespace)
                                   where q.name = s.name and q.namespace = s.namespace)
              else s.name = any ($4::text[]) and s.name <> all ($5::text[])
                   or not exists (select from pgdispatch.workflow_executions e
                                  where e.id = s.name::uuid and e.status in ('STARTING', 'RUNNING'))
          end
    returning s.kind, s.namespace, s.name, s.executions, s.detail
), found as (
    insert into pgdispatch.stalls as s (kind, namespace, name, executions, detail)
    select 'TASK_QUEUE', q.namespace, q.name, q.executions, 'no worker has polled it for minutes'
    from unnest($1::text[], $2::text[], $3::integer[]) as q (name, namespace, executions)
    union all
    select 'EXECUTION', x.namespace, x.name, 1, x.detail
    from unnest($5::text[], $6::text[], $7::text[]) as x (name, namespace, detail)
    on conflict (kind, namespace, name) do update
    set executions = excluded.executions, detail = excluded.detail
    returning s.kind, s.namespace, s.name, s.executions, s.detail, s.since
)
select false as over, f.kind, f.namespace, f.name, f.executions, f.detail from found f where f.since >= statement_timestamp()
union all
select true, o.kind, o.namespace, o.name, o.executions, o.detail from over o
