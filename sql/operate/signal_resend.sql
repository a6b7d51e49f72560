-- writes signals and the audit log
-- $1 signal, $2 its execution (null: any), $3 who. Returns nothing if the signal is of another execution.
with sent as materialized (
    select r.id, r.execution_id, r.former, r.name
    from (select $1::bigint as id
          where $2::text is null
             or exists (select from pgdispatch.signals s where s.id = $1::bigint and s.execution_id = $2::text::uuid)) s
    cross join lateral pgdispatch.resend_signal(s.id) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'executions resend', 'execution ' || s.former,
           jsonb_build_object('signal', $1::bigint, 'name', s.name, 'sent_as', s.id, 'execution', s.execution_id)
    from sent s
)
select s.id, s.execution_id::text from sent s
