-- Begins another file of the log, as a load does that fills one.
select pg_switch_wal()
