-- How the items of a definition become the input of their workflows, and the limit key that they have by default.
alter table pgdispatch.workflow_definitions
    -- envelope: an object with the item's IDs, the node IDs and params. params: params. args: params is an array, and each
    -- element an argument. payloads: the same, of payloads that the application has encoded.
    add column input text not null default 'envelope' check (input in ('envelope', 'params', 'args', 'payloads')),
    -- For items without one: this key, or the value of this field of params.
    add column limit_key text check (length(limit_key) between 1 and 200),
    add column limit_key_param text check (length(limit_key_param) between 1 and 200),
    add constraint "a definition has limit_key or limit_key_param" check (num_nonnulls(limit_key, limit_key_param) <= 1);

-- Whether an insert need not look at the columns above: see item_enqueued().
alter table pgdispatch.workflow_definitions
    add column plain boolean not null generated always as (input = 'envelope' and num_nonnulls(limit_key, limit_key_param) = 0) stored;

-- Only an envelope needs a graph.
alter table pgdispatch.workflow_executions alter column workflow_definition_version_id drop not null;

---- create above / drop below ----

drop function if exists pgdispatch.check_item(pgdispatch.workflow_execution_queue);
alter table pgdispatch.workflow_definitions drop column plain, drop column input, drop column limit_key, drop column limit_key_param;
delete from pgdispatch.workflow_executions where workflow_definition_version_id is null;
alter table pgdispatch.workflow_executions alter column workflow_definition_version_id set not null;
