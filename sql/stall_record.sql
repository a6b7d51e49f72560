-- reads
-- $1 task queues without a poller and $2 how many executions each has; $3 executions that were asked about; $4 those of them that
-- do not progress and $5 why. Returns what is new, and what is over.
with over as (
    delete from pgdispatch.stalls s
    where case s.kind
              when 'TASK_QUEUE' then s.name <> all ($1::text[])
              else s.name = any ($3::text[]) and s.name <> all ($4::text[])
                   or not exists (select from pgdispatch.workflow_executions e where e.id = s.name::uuid and e.finished_at is null)
          end
    returning s.kind, s.name, s.executions, s.detail
), found as (
    insert into pgdispatch.stalls as s (kind, name, executions, detail)
    select 'TASK_QUEUE', q.name, q.executions, 'no worker has polled it for minutes'
    from unnest($1::text[], $2::integer[]) as q (name, executions)
    union all
    select 'EXECUTION', x.name, 1, x.detail
    from unnest($4::text[], $5::text[]) as x (name, detail)
    on conflict (kind, name) do update
    set executions = excluded.executions, detail = excluded.detail
    returning s.kind, s.name, s.executions, s.detail, s.since
)
select false as over, f.kind, f.name, f.executions, f.detail from found f where f.since >= statement_timestamp()
union all
select true, o.kind, o.name, o.executions, o.detail from over o
