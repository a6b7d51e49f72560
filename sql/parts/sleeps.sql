{{- /* Whether a dispatcher sleeps and is to be notified. See functions/wake.sql. */ -}}
not pg_try_advisory_xact_lock_shared(pgdispatch.gate_key()) and current_setting('pgdispatch.notify', true) is distinct from 'off'
