-- writes watchers
-- $1 replica, $2 executions (null: all of its own). Ends their watches, so that any replica with room may take them.
update pgdispatch.workflow_executions e
set watcher = null
where e.watcher = $1 and e.finished_at is null and ($2::uuid[] is null or e.id = any ($2::uuid[]))
