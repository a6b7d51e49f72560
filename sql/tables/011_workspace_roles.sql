-- The workspaces that a login may use while workspaces are isolated: see functions/own_workspaces.sql. By the role's OID,
-- so that a role that is created later under the same name gets nothing.
create table pgdispatch.workspace_roles (
    role         regrole not null,
    -- Null means any that the session names.
    workspace_id uuid references pgdispatch.workspaces (id) on delete cascade,
    unique (role, workspace_id)
);

create index workspace_roles_by_workspace on pgdispatch.workspace_roles (workspace_id);

---- create above / drop below ----

-- Without policies an isolated enqueuer sees nothing.
drop policy if exists own_workspace on pgdispatch.workflow_execution_queue;
drop function if exists pgdispatch.own_workspaces();
drop table pgdispatch.workspace_roles;
