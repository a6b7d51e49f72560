-- The process ID of the replica that claimed last.
select coalesce((
    select (regexp_match(c.new_owner, '_(\d+)_[^_]*$'))[1]
    from chaos.changes c
    where c.new_status = 'CLAIMED' and c.old_status = 'PENDING'
    order by c.seq desc
    limit 1), '')
