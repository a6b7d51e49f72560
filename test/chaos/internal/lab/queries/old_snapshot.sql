-- A transaction that holds a snapshot and a transaction ID, and uses neither.
select count(*), pg_current_xact_id() from pgdispatch.workspaces
