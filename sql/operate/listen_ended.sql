-- reads
-- Notifications of ends: see functions/announce_ends.sql.
listen pgdispatch_ended
