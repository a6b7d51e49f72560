package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitCodeTellsHelpFromFailure(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err     error
		code    int
		printed string
	}{
		{nil, 0, ""},
		{fmt.Errorf("read flags: %w", flag.ErrHelp), 2, ""},
		{errors.New("no such scenario"), 1, "no such scenario\n"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, row.code, exitCode(row.err, &stderr))
		require.Equal(t, row.printed, stderr.String())
	}
}
