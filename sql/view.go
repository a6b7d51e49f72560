package sql

// The statements of whoever looks on: `status`, its live view and the web view. What each costs is bounded, however much the
// tables hold.
var (
	ActivityNote   = read("activity_note")
	ActivityRead   = read("activity_read")
	ViewDeadGroup  = read("view_dead_group")
	ViewDeadGroups = read("view_dead_groups")
	ViewItems      = read("view_items")
	ViewWorkspace  = read("view_workspace")
	ViewWorkspaces = read("view_workspaces")
)
