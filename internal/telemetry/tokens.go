package telemetry

// adminTokens are the tokens in force.
type adminTokens struct{ act, view string }

// SetTokens replaces Token and ViewToken, from the next request on.
func (a *Admin) SetTokens(token, viewToken string) { a.changed.Store(&adminTokens{token, viewToken}) }

func (a *Admin) tokens() adminTokens {
	if changed := a.changed.Load(); changed != nil {
		return *changed
	}
	return adminTokens{a.Token, a.ViewToken}
}
