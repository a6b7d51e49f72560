package cli

import (
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// settingNames are the settings that `settings set` changes, in the order of their output.
var settingNames = []string{"max-claims", "paused", "retention", "dead-letter-retention", "result-bytes",
	"workflow-id-bytes", "notify-ended"}

// showSettings returns the settings as JSON has them, under the names that `settings set` uses, with underscores.
func showSettings(s operate.Settings) map[string]any {
	return map[string]any{"max_claims": s.MaxClaims, "paused": s.Paused, "retention": showRetention(s.Retention),
		"dead_letter_retention": showRetention(s.DeadLetterRetention), "result_bytes": s.ResultBytes,
		"workflow_id_bytes": s.WorkflowIDBytes,
		"notify_ended":      s.NotifyEnded}
}

func (a *App) printSettings(s operate.Settings) error {
	shown := showSettings(s)
	return a.show(shown, func() error {
		for _, name := range settingNames {
			fmt.Fprintln(a.Stdout, name, shown[strings.ReplaceAll(name, "-", "_")])
		}
		return nil
	})
}

// printSettingsChange prints what was changed, and all settings.
func (a *App) printSettingsChange(change operate.SettingsChange) error {
	was, is, changed := showSettings(change.Was), showSettings(change.Is), operate.Change{}
	for _, name := range settingNames {
		key := strings.ReplaceAll(name, "-", "_")
		if was[key] == is[key] {
			continue
		}
		changed[key] = [2]any{was[key], is[key]}
		if a.output != "json" {
			fmt.Fprintf(a.Stdout, "%s was %v and is %v\n\n", name, was[key], is[key])
		}
	}
	if a.output == "json" {
		is["changed"] = changed
		return a.printJSON(is)
	}
	if len(changed) == 0 {
		fmt.Fprint(a.Stdout, "it is like that already: nothing was changed\n\n")
	}
	return a.printSettings(change.Is)
}
