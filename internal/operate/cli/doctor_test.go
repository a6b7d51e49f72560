package cli

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/stretchr/testify/require"
)

func TestDoctorsVerdictIsTheWorstFinding(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		severities []doctor.Severity
		strict     bool
		want       int
	}{
		{[]doctor.Severity{doctor.Fine}, true, 0}, {[]doctor.Severity{doctor.Fine, doctor.Warning}, false, 0},
		{[]doctor.Severity{doctor.Fine, doctor.Warning}, true, exitProblems},
		{[]doctor.Severity{doctor.Unknown, doctor.Warning}, false, exitUnknown},
		{[]doctor.Severity{doctor.Unknown, doctor.Problem}, false, exitProblems},
	} {
		findings := []doctor.Finding{}
		for _, s := range row.severities {
			findings = append(findings, doctor.Finding{Severity: s})
		}
		code := 0
		if err := verdict(findings, row.strict); err != nil {
			code = codeOf(err)
		}
		require.Equal(t, row.want, code, "%v", row)
	}
}
