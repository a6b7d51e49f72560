-- $1 workspace, $2 starts per second or null.
update pgdispatch.workspaces set max_starts_per_second = $2::float8 where id = $1::text::uuid
