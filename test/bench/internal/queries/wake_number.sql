-- $1 workspace: what notifications call it.
select wake_number from pgdispatch.workspaces where id = $1::uuid
