-- Switches to a new WAL file, as a load does that fills one.
select pg_switch_wal()
