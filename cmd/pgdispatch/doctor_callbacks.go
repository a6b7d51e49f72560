package main

import (
	"context"
	"fmt"
	nethttp "net/http"
	"time"
)

// callbackReachTimeout bounds the one call that doctor makes.
const callbackReachTimeout = 5 * time.Second

// checkCallbackURL calls without a token what Temporal is to call with one: a replica answers that there is none. It says nothing
// of whether Temporal's own machine gets there, and allows it.
func checkCallbackURL(ctx context.Context, c config) []finding {
	if c.callbackURL == "" {
		return nil
	}
	const check, meaning = "callbacks", "Temporal calls in vain: ends are found by watching and by listing what closed, some seconds later."
	const remedy = "See that PGDISPATCH_CALLBACK_URL leads to PGDISPATCH_CALLBACK_ADDR of a replica that runs, through whatever stands between."
	ctx, cancel := context.WithTimeout(ctx, callbackReachTimeout)
	defer cancel()
	request, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, c.callbackURL, nil)
	if err != nil {
		return []finding{{check, problem, redact(err).Error(), meaning, remedy}}
	}
	response, err := nethttp.DefaultClient.Do(request)
	if err != nil {
		return []finding{{check, warning, redact(err).Error(), meaning, remedy}}
	}
	defer response.Body.Close()
	if response.StatusCode != nethttp.StatusUnauthorized {
		return []finding{{check, warning, fmt.Sprintf("the URL answers %s to a call without a token, and a replica answers 401", response.Status), meaning, remedy}}
	}
	return []finding{ok(check, "the URL leads to a replica; whether Temporal may call it, the replicas' logs say")}
}
