-- A transaction for which nobody waits, so that a crash may lose it.
with lost as (select set_config('synchronous_commit', 'off', true))
insert into chaos.markers (at) select clock_timestamp() from lost
