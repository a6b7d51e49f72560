update pgdispatch.workspaces set max_starts_per_second = 0.5 where id = $1::text::uuid
