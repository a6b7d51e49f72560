{{- /* Whether a dispatcher sleeps and must be notified. The gate is read under its lock: see functions/wake.sql. */ -}}
current_setting('pgdispatch.notify', true) is distinct from 'off'
           and not (pg_try_advisory_xact_lock_shared(pgdispatch.gate_key()) and coalesce(pg_sequence_last_value('pgdispatch.gate'), 2) = 2)
           and {{ template "parts/room.sql" }}
