-- reads
-- $1 who; $2 prefix of the action; since $3 or, if that is null, since $4 ago; until $5 or $6, likewise; $7 only rows
-- before this ID; $8 at most; $9 subject; $10 how many of the newest rows are searched. Null filters nothing. Newest
-- first.
select a.id, a.at, a.who, a.role, a.action, a.subject, a.details
from pgdispatch.admin_log a
where ($1::text is null or a.who = $1::text)
  and ($2::text is null or starts_with(a.action, $2::text))
  and a.at >= coalesce($3::timestamptz, clock_timestamp() - $4::interval, '-infinity')
  and a.at <= coalesce($5::timestamptz, clock_timestamp() - $6::interval, 'infinity')
  and ($7::bigint is null or a.id < $7::bigint)
  and ($9::text is null or a.subject = $9::text)
  and a.id > coalesce((select max(n.id) from pgdispatch.admin_log n) - $10::bigint, 0)
order by a.id desc
limit $8::bigint
