-- The dispatcher's functions.
{{ template "functions/tokens_now.sql" . }}
{{ template "functions/passed_over.sql" . }}
{{ template "functions/lane_head.sql" . }}
{{ template "functions/allowance_left.sql" . }}
{{ template "functions/unanswered_allowed.sql" . }}
{{ template "functions/waiting_levels.sql" . }}
{{ template "functions/changed_since.sql" . }}
{{ template "functions/ready_lanes.sql" . }}
{{ template "functions/catch_up.sql" . }}
{{ template "functions/requeue_expired.sql" . }}
{{ template "functions/shorten_leases.sql" . }}
{{ template "functions/claim_unanswered.sql" . }}
{{ template "functions/claim_aged.sql" . }}
{{ template "functions/claim_around.sql" . }}
{{ template "functions/claim_arrived.sql" . }}
{{ template "functions/claim.sql" . }}
{{ template "functions/recount_lanes.sql" . }}
{{ template "functions/find_unnoticed.sql" . }}
{{ template "functions/work_due.sql" . }}
{{ template "functions/finish.sql" . }}
{{ template "functions/finish_all.sql" . }}
{{ template "functions/slot_wanted.sql" . }}
{{ template "functions/execution_said.sql" . }}
{{ template "functions/end_early.sql" . }}
{{ template "functions/kept_out.sql" . }}
{{ template "functions/cancel.sql" . }}

create trigger execution_said
before update of status on pgdispatch.workflow_executions
for each row
when (new.status <> 'RUNNING')
execute function pgdispatch.execution_said();

create trigger end_early
after update of status on pgdispatch.workflow_executions
for each row
when (new.early_outcome is not null)
execute function pgdispatch.end_early();

---- create above / drop below ----

drop function pgdispatch.cancel(uuid);
drop function pgdispatch.kept_out(uuid);
drop trigger end_early on pgdispatch.workflow_executions;
drop trigger execution_said on pgdispatch.workflow_executions;
drop function pgdispatch.end_early();
drop function pgdispatch.execution_said();
drop function pgdispatch.slot_wanted(uuid);
drop function pgdispatch.finish_all(uuid[], text[], text[], text[]);
drop function pgdispatch.finish(uuid, text, text, jsonb);
drop function pgdispatch.work_due();
drop function pgdispatch.find_unnoticed();
drop function pgdispatch.recount_lanes();
drop function pgdispatch.claim(text, integer, interval, text, text[], integer[], text);
drop function pgdispatch.claim_around(text, integer, interval, timestamptz, integer[], bigint[], pgdispatch.lane_now[], uuid[], text, text[], integer[]);
drop function pgdispatch.claim_arrived(text, integer, interval, timestamptz, pg_snapshot, tid, integer[], bigint, bigint, timestamptz);
drop function pgdispatch.claim_aged(text, bigint, interval, timestamptz, timestamptz, timestamptz, integer[], pgdispatch.lane_now[], text, text[]);
drop function pgdispatch.claim_unanswered(text, integer, interval, timestamptz, bigint, bigint[]);
drop function pgdispatch.shorten_leases();
drop function pgdispatch.requeue_expired(integer);
drop function pgdispatch.catch_up(pg_snapshot, timestamptz, integer[], bigint[]);
drop function pgdispatch.ready_lanes(integer[], bigint[], uuid[]);
drop function pgdispatch.changed_since(pg_snapshot);
drop function pgdispatch.waiting_levels();
drop function pgdispatch.unanswered_allowed(timestamptz, text, text[], integer[]);
drop function pgdispatch.allowance_left(bigint[], text, text[], integer[]);
drop function pgdispatch.lane_head(uuid, timestamptz, timestamptz, integer[], text, text[]);
drop function pgdispatch.passed_over(uuid, integer, timestamptz, timestamptz, text, text[]);
drop function pgdispatch.tokens_now(double precision, double precision, timestamptz, timestamptz);
