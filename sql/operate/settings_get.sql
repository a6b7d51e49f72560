-- reads
select s.max_claims, s.paused, s.retention, s.dead_letter_retention, s.result_bytes, s.notify_ended from pgdispatch.settings s
