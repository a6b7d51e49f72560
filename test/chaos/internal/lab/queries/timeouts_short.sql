-- For new sessions that do not set their own timeouts.
alter role postgres in database chaos set statement_timeout = '50ms';
alter role postgres in database chaos set lock_timeout = '50ms';
alter role postgres in database chaos set idle_session_timeout = '50ms';
alter role postgres in database chaos set idle_in_transaction_session_timeout = '50ms';
