-- reads
select s.max_claims, s.paused from pgdispatch.settings s
