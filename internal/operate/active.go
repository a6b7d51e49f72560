package operate

// Active returns the number of items that hold slots of the workspace: claimed, running or unanswered.
func (w WorkspaceRow) Active() int64 { return w.Claimed + w.Running + w.Unanswered }

// Active returns the number of items that hold slots of the workspace: claimed, running or unanswered.
func (w Workspace) Active() int64 { return w.Claimed + w.Running + w.Unanswered }

// Full reports whether the items that hold slots leave the workspace no room.
func (w WorkspaceRow) Full() bool { return w.Active() >= int64(max(w.Limit, w.Burst)) }

// Full reports whether the items that hold slots leave the workspace no room.
func (w Workspace) Full() bool { return w.Active() >= int64(max(w.Limit, w.Burst)) }
