-- What the items of a definition start: a workflow, or a standalone activity.
alter table pgdispatch.workflow_definitions
    add column kind text not null default 'workflow' check (kind in ('workflow', 'activity'));

-- For namespaces_in_use.
create index workflow_definitions_activities on pgdispatch.workflow_definitions (namespace) where kind = 'activity';

-- See 004_inputs.sql.
alter table pgdispatch.workflow_definitions drop column plain;
alter table pgdispatch.workflow_definitions
    add column plain boolean not null generated always as
        (kind = 'workflow' and input = 'envelope' and num_nonnulls(limit_key, limit_key_param) = 0) stored;

-- What the execution's start asks for, whatever becomes of its definition.
alter table pgdispatch.workflow_executions add column kind text not null default 'workflow';

---- create above / drop below ----

alter table pgdispatch.workflow_executions drop column kind;
drop trigger refuse_definition on pgdispatch.workflow_definitions;
delete from pgdispatch.workflow_definitions where kind = 'activity';
drop function pgdispatch.check_item(pgdispatch.workflow_execution_queue);
alter table pgdispatch.workflow_definitions drop column plain, drop column kind;
alter table pgdispatch.workflow_definitions
    add column plain boolean not null generated always as (input = 'envelope' and num_nonnulls(limit_key, limit_key_param) = 0) stored;
