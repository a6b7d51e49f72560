-- A transaction that has a snapshot, and an ID, and does nothing with either.
select count(*), pg_current_xact_id() from pgdispatch.workspaces
