package cli

import (
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// settingNames are the settings that `settings set` changes, in the order of their output.
var settingNames = []string{"max-claims", "paused", "retention", "dead-letter-retention", "result-bytes",
	"notify-ended"}

// shownSettings are the settings under the names that `settings set` uses.
type shownSettings struct {
	MaxClaims           int    `json:"max_claims"`
	Paused              bool   `json:"paused"`
	Retention           string `json:"retention"`
	DeadLetterRetention string `json:"dead_letter_retention"`
	ResultBytes         int    `json:"result_bytes"`
	NotifyEnded         bool   `json:"notify_ended"`
}

func showSettings(s operate.Settings) shownSettings {
	return shownSettings{s.MaxClaims, s.Paused, showRetention(s.Retention), showRetention(s.DeadLetterRetention),
		s.ResultBytes, s.NotifyEnded}
}

// values returns the settings in the order of settingNames.
func (s shownSettings) values() []any {
	return []any{s.MaxClaims, s.Paused, s.Retention, s.DeadLetterRetention, s.ResultBytes, s.NotifyEnded}
}

func (a *App) printSettings(s operate.Settings, output string) error {
	shown := showSettings(s)
	if output == "json" {
		return a.printJSON(shown)
	}
	for n, value := range shown.values() {
		if _, err := fmt.Fprintln(a.Stdout, settingNames[n], value); err != nil {
			return err
		}
	}
	return nil
}

// printSettingsChange prints what was changed, and all settings.
func (a *App) printSettingsChange(change operate.SettingsChange, output string) error {
	was, is := showSettings(change.Was).values(), showSettings(change.Is).values()
	changed := operate.Change{}
	for n, name := range settingNames {
		if was[n] == is[n] {
			continue
		}
		changed[strings.ReplaceAll(name, "-", "_")] = [2]any{was[n], is[n]}
		if output != "json" {
			fmt.Fprintf(a.Stdout, "%s was %v and is %v\n\n", name, was[n], is[n])
		}
	}
	if output == "json" {
		return a.printJSON(struct {
			shownSettings
			Changed operate.Change `json:"changed"`
		}{showSettings(change.Is), changed})
	}
	if len(changed) == 0 {
		fmt.Fprint(a.Stdout, "it is like that already: nothing was changed\n\n")
	}
	return a.printSettings(change.Is, output)
}
