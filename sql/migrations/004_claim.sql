-- The dispatcher's functions.
{{ template "functions/lane_head.sql" . }}
{{ template "functions/refresh_lanes.sql" . }}
{{ template "functions/requeue_expired.sql" . }}
{{ template "functions/claim.sql" . }}
{{ template "functions/recount_lanes.sql" . }}
{{ template "functions/find_unnoticed.sql" . }}
{{ template "functions/finish.sql" . }}
{{ template "functions/cancel.sql" . }}

---- create above / drop below ----

drop function pgdispatch.cancel(uuid);
drop function pgdispatch.finish(uuid, text, text);
drop function pgdispatch.find_unnoticed();
drop function pgdispatch.recount_lanes();
drop function pgdispatch.claim(text, integer, interval);
drop function pgdispatch.requeue_expired(integer);
drop function pgdispatch.refresh_lanes(uuid[], timestamptz);
drop function pgdispatch.lane_head(uuid, timestamptz);
