-- Several namespaces of one Temporal.

alter table pgdispatch.workflow_definitions
    -- Where its workflows are started; null: in the namespace that the replicas are given.
    add column namespace text check (octet_length(namespace) between 1 and 1000 and namespace !~ '[[:cntrl:]]');

create index workflow_definitions_by_namespace on pgdispatch.workflow_definitions (namespace);

alter table pgdispatch.workflow_executions
    -- Where its workflow is, whatever its definition says since. Null: it was claimed before there were several.
    add column namespace text;

alter table pgdispatch.replicas
    -- Where it starts workflows whose definition names no namespace.
    add column namespace text;

-- How far closed workflows have been listed, in each namespace: one that does not answer must not hold up the others.
create table pgdispatch.close_lists (
    namespace text primary key,
    -- The newest close time that was listed, by Temporal's clock; null: nothing was.
    swept_to  timestamptz,
    -- When a list last reached far back.
    wide_at   timestamptz not null default '-infinity'
)
with (fillfactor = 50);

alter table pgdispatch.close_sweep drop column swept_to, drop column wide_at;

{{ template "functions/namespaces_in_use.sql" . }}

---- create above / drop below ----

drop function pgdispatch.namespaces_in_use();
alter table pgdispatch.close_sweep add column swept_to timestamptz, add column wide_at timestamptz not null default '-infinity';
drop table pgdispatch.close_lists;
alter table pgdispatch.replicas drop column namespace;
alter table pgdispatch.workflow_executions drop column namespace;
drop index pgdispatch.workflow_definitions_by_namespace;
alter table pgdispatch.workflow_definitions drop column namespace;
