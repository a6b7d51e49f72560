-- reads
select s.max_claims, s.paused, s.retention, s.dead_letter_retention from pgdispatch.settings s
