package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/signin"
)

func TestTheLogOfChangesSaysWhoActedAndHowThatIsKnown(t *testing.T) {
	t.Parallel()
	for via, signsOut := range map[string]bool{"oidc": true, "proxy": false} {
		b := newBrowser(t)
		visitor := signin.Visitor{Name: "anna", Via: via, Rights: signin.Rights{Operator: true}}
		request := httptest.NewRequest(http.MethodPost, "http://localhost/ui/settings/resume", nil)
		request.Header = b.header
		handler := b.site().Acting()
		handler.ServeHTTP(httptest.NewRecorder(), request.WithContext(signin.With(t.Context(), visitor)))
		require.Equal(t, []string{"settings set by anna (web, " + via + `): {"paused":false}`}, b.change.calls)

		page := httptest.NewRecorder()
		request = httptest.NewRequest(http.MethodGet, "http://localhost/ui/settings", nil)
		handler.ServeHTTP(page, request.WithContext(signin.With(t.Context(), visitor)))
		require.Contains(t, page.Body.String(), "<span>anna</span>")
		require.Equal(t, signsOut, strings.Contains(page.Body.String(), "Sign out"))
	}
}
