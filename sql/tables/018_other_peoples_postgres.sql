-- The gate is logged. The first page of an unlogged sequence may be missing on a standby that is promoted: then nobody
-- could read the gate, and every insert failed. Such a sequence cannot be altered either, so it is created anew, with its
-- privileges, because others use it before `pgdispatch migrate up` grants them. A whole one is altered: clients that are
-- about to read it would not find a new one.
do $$
declare
    granted constant aclitem[] := (select c.relacl from pg_class c where c.oid = 'pgdispatch.gate'::regclass);
    of_owner constant regrole := (select c.relowner from pg_class c where c.oid = 'pgdispatch.gate'::regclass);
    statement text;
begin
    alter sequence pgdispatch.gate set logged;
exception when internal_error then -- bad magic number
    drop sequence pgdispatch.gate;
    create sequence pgdispatch.gate maxvalue 2;
    execute format('alter sequence pgdispatch.gate owner to %s', of_owner);
    for statement in
        select format('grant %s on sequence pgdispatch.gate to %s', a.privilege_type, a.grantee::regrole)
        from aclexplode(granted) a
        where a.grantee <> 0
    loop
        execute statement;
    end loop;
end;
$$;

-- If a publication is for all tables, tables without an identity refuse UPDATE and DELETE. `pgdispatch migrate up` gives
-- one to the table of versions.
alter table pgdispatch.marks replica identity full;
alter table pgdispatch.workspace_roles replica identity full;
alter table pgdispatch.claim_lock replica identity full;

-- Vacuum must not cut the empty end off tables that are emptied and filled all day: it takes an exclusive lock for that,
-- which a standby replays by cancelling its queries.
alter table pgdispatch.workflow_execution_queue set (vacuum_truncate = off, toast.vacuum_truncate = off);
alter table pgdispatch.workflow_executions set (vacuum_truncate = off, toast.vacuum_truncate = off);
alter table pgdispatch.enqueue_keys set (vacuum_truncate = off);
alter table pgdispatch.marks set (vacuum_truncate = off);
alter table pgdispatch.signals set (vacuum_truncate = off, toast.vacuum_truncate = off);
alter table pgdispatch.workspace_activity set (vacuum_truncate = off);

---- create above / drop below ----

alter table pgdispatch.workflow_execution_queue reset (vacuum_truncate, toast.vacuum_truncate);
alter table pgdispatch.workflow_executions reset (vacuum_truncate, toast.vacuum_truncate);
alter table pgdispatch.enqueue_keys reset (vacuum_truncate);
alter table pgdispatch.marks reset (vacuum_truncate);
alter table pgdispatch.signals reset (vacuum_truncate, toast.vacuum_truncate);
alter table pgdispatch.workspace_activity reset (vacuum_truncate);

alter table pgdispatch.marks replica identity default;
alter table pgdispatch.workspace_roles replica identity default;
alter table pgdispatch.claim_lock replica identity default;

alter sequence pgdispatch.gate set unlogged;
