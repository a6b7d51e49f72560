-- writes the gate
-- Opens the gate: from now on, nobody notifies.
select setval('pgdispatch.gate', 2)
