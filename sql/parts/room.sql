{{- /* Whether the notification queue of the cluster has room. The bound is claim.NotifyBound. */ -}}
pg_notification_queue_usage() < 0.1
