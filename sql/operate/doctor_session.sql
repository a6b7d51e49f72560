-- reads
-- This session: how long the server keeps it if its client takes no data, in milliseconds, and whether it uses TCP.
select s.setting::integer as tcp_user_timeout, inet_server_addr() is not null as over_tcp
from pg_settings s
where s.name = 'tcp_user_timeout'
