package main

// webPages: nobody changes anything through a page without permission.
var webPages = []mutant{
	{"no action without the token", "a local client may act if no token is set",
		[]edit{{"internal/telemetry/admin.go", "case a.sent(r, tokens.act):", "case a.sent(r, tokens.act), open && a.local(r):"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"the view token is for looking", "a client with the view token may act",
		[]edit{{"internal/telemetry/admin.go",
			"case a.sent(r, tokens.act):",
			"case a.sent(r, tokens.act), a.sent(r, tokens.view):"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"an empty token is none", "an empty password is accepted if no token is set",
		[]edit{{"internal/telemetry/admin.go", "return is && token != \"\" &&", "return is &&"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"other sites change nothing", "a form on any site acts with the password that the browser remembers",
		[]edit{{"internal/operate/web/acting.go",
			"protection.Handler(nethttp.MaxBytesHandler(mux, maxBody))",
			"nethttp.MaxBytesHandler(mux, maxBody)"}},
		"./internal/operate/web", "TestAnotherSitesFormsAreRefused"},
	{"read-only pages have no forms", "read-only pages have forms",
		[]edit{{"internal/operate/web/web.go", "visit{s, false}", "visit{s, true}"}},
		"./internal/operate/web", "TestWhoLooksOnlyChangesNothingAndIsOfferedNothing"},
	{"an address shows no text of its own", "a page shows text from its address",
		[]edit{{"internal/operate/web/web.go",
			"doneWords[r.URL.Query().Get(doneParameter)]",
			"r.URL.Query().Get(doneParameter)"}},
		"./internal/operate/web", "TestWhatAnAddressSaysWasDoneIsNotShown"},
}
