-- The database's counters so far: WAL position, transactions, and dead row versions by update (and how many of these
-- were heap-only) and by delete.
select pg_current_wal_insert_lsn() - '0/0'::pg_lsn, d.xact_commit, t.updated, t.heap_only, t.deleted
from pg_stat_database d
cross join (
    select coalesce(sum(n_tup_upd), 0)::bigint as updated, coalesce(sum(n_tup_hot_upd), 0)::bigint as heap_only,
           coalesce(sum(n_tup_del), 0)::bigint as deleted
    from pg_stat_user_tables
) t
where d.datname = current_database()
