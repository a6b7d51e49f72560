-- $1 execution. As rows.sql.
select * from chaos.found f where f.execution_id = $1::text
