update pgdispatch.workspaces set paused = $2::boolean where id = $1::uuid
