package sql

// The statements of a person at the command line. What changes something writes it into pgdispatch.admin_log too.
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
