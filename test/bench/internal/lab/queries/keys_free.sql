-- Limits with room, over all workspaces.
insert into pgdispatch.limits (key, max_concurrent) select 'free-' || n, 1000 from generate_series(0, 999) n
