set session_replication_role = replica
