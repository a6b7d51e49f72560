-- writes the gate
-- Leaves duty; nobody notifies. The gate is set before the unlock, so that the next on duty has the last word.
select case setval('pgdispatch.gate', 2) when 2 then pg_advisory_unlock(pgdispatch.gate_key() + 1) end
