-- reads
-- Corrects lanes only.
select pgdispatch.recount_lanes()
