-- Internal: how many lanes count something else than what is open. 0 is right.
select pgdispatch.recount_lanes()
