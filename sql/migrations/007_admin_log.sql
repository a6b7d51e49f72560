-- What was changed by hand, from the command line.

-- A verb that changes something writes its row in the same statement, so neither is there without the other. Nothing reads it but
-- `pgdispatch audit list`, and nothing deletes from it.
create table pgdispatch.admin_log (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    -- Who says to have done it, and the role of Postgres that did.
    who     text not null check (length(who) between 1 and 200 and who !~ '[[:cntrl:]]'),
    role    text not null default session_user,
    -- The command, such as 'workspaces set-plan', and what it was done to, such as 'workspace' and its ID.
    action  text not null,
    subject text not null,
    -- Of a change: {"column": [before, after]}. Else what it was done to.
    details jsonb not null default '{}'
);

{{ template "functions/row_change.sql" . }}

---- create above / drop below ----

drop function pgdispatch.row_change(jsonb, jsonb);
drop table pgdispatch.admin_log;
