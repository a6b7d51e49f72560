-- reads
-- Off duty, and nobody notifies. In this order: whoever is on duty next has the last word.
select case setval('pgdispatch.gate', 2) when 2 then pg_advisory_unlock(pgdispatch.gate_key() + 1) end
