package sql

// Statements for operators. Those that change something also write to pgdispatch.admin_log.
var (
	AuditList      = read("audit_list")
	DefinitionFind = read("definition_find")
	DefinitionList = read("definition_list")
	ItemCancel     = read("item_cancel")
	ItemEnqueue    = read("item_enqueue")
	ItemFind       = read("item_find")
	ItemRead       = read("item_read")
	ItemRetry      = read("item_retry")
	Stalled        = read("stalled")
	StopRequest    = read("stop_request")
	TierList       = read("tier_list")
	WorkspaceFind  = read("workspace_find")
	WorkspaceList  = read("workspace_list")
	WorkspaceSet   = read("workspace_set")
)
