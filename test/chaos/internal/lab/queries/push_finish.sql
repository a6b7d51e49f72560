-- $1 execution, $2 outcome, $3 reason. Whether it is the first report.
select pgdispatch.finish($1::text::uuid, $2, $3)
