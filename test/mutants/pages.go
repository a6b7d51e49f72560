package main

// webPages: nobody changes anything from a page who may not.
var webPages = []mutant{
	{"nobody acts without the token", "who looks from this machine, where no token is set, may act",
		[]edit{{"internal/telemetry/admin.go", "case a.sent(r, tokens.act):", "case a.sent(r, tokens.act), open && a.local(r):"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"the view token is for looking", "who sends the view token may act",
		[]edit{{"internal/telemetry/admin.go", "case a.sent(r, tokens.act):", "case a.sent(r, tokens.act), a.sent(r, tokens.view):"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"an empty token is none", "an empty password opens what no token was set for",
		[]edit{{"internal/telemetry/admin.go", "return is && token != \"\" &&", "return is &&"}},
		"./internal/telemetry", "TestWhoMayLookAndWhoMayAct"},
	{"other sites change nothing", "a form on any site changes something by the password that the browser knows",
		[]edit{{"internal/operate/web/acting.go", "protection.Handler(nethttp.MaxBytesHandler(mux, maxBody))", "nethttp.MaxBytesHandler(mux, maxBody)"}},
		"./internal/operate/web", "TestAnotherSitesFormsAreRefused"},
	{"who looks has no forms", "pages for looking have forms",
		[]edit{{"internal/operate/web/web.go", "visit{s, false}", "visit{s, true}"}},
		"./internal/operate/web", "TestWhoLooksOnlyChangesNothingAndIsOfferedNothing"},
	{"an address says nothing", "a page says what its address has it say",
		[]edit{{"internal/operate/web/web.go", "doneWords[r.URL.Query().Get(doneParameter)]", "r.URL.Query().Get(doneParameter)"}},
		"./internal/operate/web", "TestWhatAnAddressSaysWasDoneIsNotShown"},
}
