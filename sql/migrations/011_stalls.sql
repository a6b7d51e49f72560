-- What runs and does not progress, as a look has found it. The replicas take turns to look.
create table pgdispatch.stalls (
    -- TASK_QUEUE: no worker polls it. EXECUTION: its workflow task fails again and again.
    kind       text not null check (kind in ('TASK_QUEUE', 'EXECUTION')),
    -- Of Temporal; '': the replicas', of executions from before there were several.
    namespace  text not null,
    name       text not null,
    -- How many executions it concerns.
    executions integer not null,
    detail     text not null,
    since      timestamptz not null default clock_timestamp(),
    primary key (kind, namespace, name)
);

create table pgdispatch.stall_look (
    singleton boolean primary key default true check (singleton),
    looked_at timestamptz not null default '-infinity',
    -- Executions up to this one were asked about in this round.
    after_id  uuid not null default '00000000-0000-0000-0000-000000000000'
)
with (fillfactor = 50);

insert into pgdispatch.stall_look default values;

create view pgdispatch.stalled as
select s.kind, s.namespace, s.name, s.executions, s.detail, s.since
from pgdispatch.stalls s
where case s.kind
          when 'EXECUTION' then exists (select from pgdispatch.workflow_executions e where e.id = s.name::uuid and e.status in ('STARTING', 'RUNNING'))
          else exists (select from pgdispatch.workflow_executions e join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
                       where e.finished_at is null and d.task_queue = s.name and coalesce(e.namespace, '') = s.namespace)
      end;

comment on view pgdispatch.stalled is
    'What runs and does not progress: task queues that no worker polls, and executions whose workflow task fails again and again. As the last look found it, at most a minute or so ago.';

---- create above / drop below ----

drop view pgdispatch.stalled;
drop table pgdispatch.stall_look, pgdispatch.stalls;
