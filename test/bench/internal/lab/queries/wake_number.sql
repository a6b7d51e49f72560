-- $1 workspace. Returns its number in notifications.
select wake_number from pgdispatch.workspaces where id = $1::uuid
