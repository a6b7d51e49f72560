-- What a completed workflow returned, bounded. It goes with its execution.
alter table pgdispatch.workflow_executions
    add column result      jsonb,
    -- Why there is none, where there was one: it was too large, encrypted, or no JSON.
    add column result_note text;

alter table pgdispatch.settings
    -- How many bytes of a result, as text, are kept; a longer one is not cut but left out. 0: none.
    add column result_bytes integer not null default 4096 check (result_bytes between 0 and 65536);

{{ template "functions/result_of.sql" . }}

---- create above / drop below ----

drop function pgdispatch.result_of(text);
alter table pgdispatch.settings drop column result_bytes;
alter table pgdispatch.workflow_executions drop column result_note, drop column result;
