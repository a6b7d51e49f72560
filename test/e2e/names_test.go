package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAChangeOfSettingsIsPrinted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Contains(t, d.types("settings", "set", "max-claims", "7"), "max-claims was 100 and is 7\n\nmax-claims 7\n")
	require.Contains(t, d.types("settings", "set", "max-claims", "7"),
		"it is like that already: nothing was changed\n\nmax-claims 7\n")
	require.JSONEq(t,
		`{"max_claims": 7, "paused": true, "retention": "off", "dead_letter_retention": "off", "result_bytes": 4096,
			"workflow_id_bytes": 255,
		"notify_ended": false,
		"changed": {"paused": [false, true]}}`, d.types("settings", "set", "paused", "true", "-o", "json"))
	_, errs, _ := d.tries("settings", "set", "max-claim", "7")
	require.Contains(t, errs, `workflow-id-bytes or notify-ended; did you mean "max-claims"?`)
}

func TestNamesMatchWhateverTheirCaseUnlessThatIsAmbiguous(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 1, "card refused")
	d.types("enqueue", "order", "--workspace", "shop", "--run-at", "1h")
	for _, command := range []string{
		"workspaces show SHOP", "workspaces pause Shop", "workspaces set-limit sHop 7", "workspaces list --after SHOP",
		"enqueue ORDER --workspace Shop", "dead list --workspace SHOP --definition Order",
		"items list --definition ORDER",
	} {
		out := d.types(strings.Fields(command)...)
		require.Equal(t, strings.Contains(command, "--after"), strings.Contains(out, "no workspaces match"), command)
		require.NotContains(t, out, "no dead letters match", command)
		require.NotContains(t, out, "no items match", command)
	}

	exact, other := d.addWorkspace("Straße"), d.addWorkspace("STRASSE")
	require.Contains(t, d.types("workspaces", "show", "Straße"), exact)
	require.Contains(t, d.types("workspaces", "show", "strasse"), other, "ß does not match s")
	d.addWorkspace("Shop")
	require.Contains(t, d.types("workspaces", "show", "shop"), d.workspace, "the exact name wins")
	for _, args := range []string{"workspaces resume SHOP", "items list --workspace SHOP",
		"enqueue order --workspace SHOP"} {
		_, errs, code := d.tries(strings.Fields(args)...)
		require.Equal(t, 1, code, args)
		require.Regexp(t, `"SHOP" could be any of "[sS]hop", "[sS]hop": write it as one of them is written`, errs, args)
	}
}

func TestAnUnknownNameGetsASuggestion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.types("limits", "set", "smtp", "--max", "3")
	for args, want := range map[string]string{
		"workspaces pause shoop":                "see `pgdispatch workspaces list`; did you mean \"shop\"?\n",
		"workspaces show SHOP2":                 `; did you mean "shop"?`,
		"items list --workspace shp":            `; did you mean "shop"?`,
		"dead list --definition Ordr":           `; did you mean "order"?`,
		"enqueue oder --workspace shop":         `its definitions are order; did you mean "order"?`,
		"workspaces list --after shoq":          `; did you mean "shop"?`,
		"workspaces pause something-else":       "see `pgdispatch workspaces list`\n",
		"items list --definition somethingelse": "see `pgdispatch definitions list`\n",
		"items list --definition der":           "`pgdispatch definitions list`; did you mean \"order\"?\n",
		"limits remove smpp":                    `; did you mean "smtp"?`,
		"workspaces set-plan shop PRE":          "; did you mean PRO?\n",
	} {
		_, errs, code := d.tries(strings.Fields(args)...)
		require.Equal(t, 1, code, args)
		require.Contains(t, errs, want, args)
	}
}

func TestCommandsNameAWorkflowByTheIDThatItsItemNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.types("definitions", "create", "--workspace", "shop", "--name", "mail", "--kind", "activity", "--type", "SendMail",
		"--task-queue", "mails", "--input", "args", "--execution-timeout", "10m")
	require.Contains(t,
		d.types("enqueue", "mail", "--workspace", "shop", "--params", `["ann"]`, "--workflow-id", "mail-1"),
		"enqueued item 1: activity mail-1 on task queue mails.")
	require.Regexp(t, `(?m)^activity +mail-1$`, d.types("items", "show", "1"))
	require.Contains(t, d.types("enqueue", "order", "--workspace", "shop", "--workflow-id", "order-2"),
		"enqueued item 2: workflow order-2 on task queue orders.")
	require.Regexp(t, `(?m)^item +2\n(.*\n)*workflow +order-2$`, d.types("items", "show", "order-2"))
	_, errs, code := d.tries("items", "wait", "order-2", "mail-1", "--timeout", "1ms")
	require.Equal(t, 4, code, errs)
	d.types("enqueue", "order", "--workspace", "shop", "--workflow-id", "order-2")
	_, errs, _ = d.tries("items", "cancel", "order-2")
	require.Contains(t, errs, `"order-2" is the workflow ID of 2 items that have not ended: give one of the item IDs 3, 2`)
	d.types("items", "cancel", "3")
	d.types("executions", "signal", "2", "approve")
	require.Regexp(t, `\n1 +\S+Z +order-2 +approve +OPEN`, d.types("executions", "signals"))
	require.Contains(t, d.types("executions", "cancel", "2", "--yes"), "2  order-2  withdrawn: it was not started yet\n")
	_, errs, _ = d.tries("items", "show", "order-2")
	require.Contains(t, errs, `"order-2" is not an item ID (a number), execution ID (a UUID) or workflow ID `+
		"(execution-...), and no item that has not ended names this workflow ID", "an item that has ended is not found by it")
}
