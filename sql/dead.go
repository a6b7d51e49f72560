package sql

// Statements about finished items.
var (
	DeadDiscard    = read("dead_discard")
	DeadFind       = read("dead_find")
	DeadHistory    = read("dead_history")
	DeadKnown      = read("dead_known")
	DeadRead       = read("dead_read")
	DeadReplay     = read("dead_replay")
	DeadReplayAll  = read("dead_replay_all")
	DeleteFinished = read("delete_finished")
	RetentionSet   = read("retention_set")
)
