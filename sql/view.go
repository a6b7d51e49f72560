package sql

// Statements for `status`, its live view and the web view. The cost of each is bounded, whatever the size of the
// tables.
var (
	ActivityNote   = read("activity_note")
	ActivityRead   = read("activity_read")
	ViewDeadGroup  = read("view_dead_group")
	ViewDeadGroups = read("view_dead_groups")
	ViewItems      = read("view_items")
	ViewWorkspace  = read("view_workspace")
	ViewWorkspaces = read("view_workspaces")
)
