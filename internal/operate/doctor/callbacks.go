package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// callbackReachTimeout limits doctor's call to the callback URL.
const callbackReachTimeout = 5 * time.Second

// checkCallbackURL calls the callback URL without a token, which a replica answers as unauthorized. It cannot tell
// whether Temporal's machine reaches the URL, or is allowed to call it.
func checkCallbackURL(ctx context.Context, c config.Config) []Finding {
	if c.CallbackURL == "" {
		return nil
	}
	const check, meaning = "callbacks",
		"Completion callbacks do not arrive. Ends are found by watching and by listing closed workflows, a few seconds later."
	const remedy = "Check that PGDISPATCH_CALLBACK_URL leads to PGDISPATCH_CALLBACK_ADDR of a running replica, " +
		"including any proxy."
	ctx, cancel := context.WithTimeout(ctx, callbackReachTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.CallbackURL, nil)
	if err != nil {
		return []Finding{{check, Problem, postgres.Redact(err).Error(), meaning, remedy}}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return []Finding{{check, Warning, postgres.Redact(err).Error(), meaning, remedy}}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		return []Finding{
			{check, Warning, fmt.Sprintf("the URL answers %s to a call without a token; a replica answers 401", response.Status),
				meaning, remedy}}
	}
	return []Finding{ok(check, "the URL leads to a replica; the replicas' logs show whether Temporal may call it")}
}
