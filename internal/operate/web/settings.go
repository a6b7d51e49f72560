package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// settingsData is the data of the settings page.
type settingsData struct {
	operate.Settings
	Acting  bool
	History []operate.Administered
	// Typed is the form's value, Wrong the reason why it was refused.
	Typed, Wrong string
}

func (v visit) settings(r *http.Request) (string, any, error) {
	d, err := v.settingsData(r.Context())
	return "settings", d, err
}

func (v visit) settingsData(ctx context.Context) (d settingsData, err error) {
	d.Acting = v.acts.all
	if d.Settings, err = v.Read.Settings(ctx); err != nil {
		return d, err
	}
	d.Typed = strconv.Itoa(d.MaxClaims)
	d.History, err = v.Read.Audit(ctx, operate.AuditFilter{Subject: "settings"}, historyShown)
	return d, err
}

func (v visit) pauseAll(paused bool) change {
	return func(r *http.Request, who string) (next, error) {
		_, err := v.Change.ChangeSettings(r.Context(), operate.Patch{"paused": paused}, who)
		return next{to: Prefix + "settings", done: "changed"}, err
	}
}

// setMaxClaims refuses 0, which would pause everything without confirmation.
func (v visit) setMaxClaims(r *http.Request, who string) (next, error) {
	typed := r.PostForm.Get("max-claims")
	n, err := strconv.Atoi(typed)
	if err != nil || n < 1 || n > operate.MaxMaxClaims {
		d, err := v.settingsData(r.Context())
		d.Typed, d.Wrong = typed,
			fmt.Sprintf("Nothing was changed: max-claims must be a whole number from 1 to %d. To stop all starts, pause "+
				"everything.", operate.MaxMaxClaims)
		return next{}, orShown(err, "settings", d)
	}
	_, err = v.Change.ChangeSettings(r.Context(), operate.Patch{"max_claims": n}, who)
	return next{to: Prefix + "settings", done: "changed"}, err
}
