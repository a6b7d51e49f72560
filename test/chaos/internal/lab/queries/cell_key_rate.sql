insert into pgdispatch.limits (workspace_id, key, max_starts, per) values ($1::text::uuid, 'limited', '{1}', '{2 seconds}')
