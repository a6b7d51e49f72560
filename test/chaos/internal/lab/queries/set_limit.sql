-- $1 workspace, $2 limit.
update pgdispatch.workspaces set max_concurrent_workflows = $2::integer where id = $1::uuid
