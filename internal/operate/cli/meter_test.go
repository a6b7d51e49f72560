package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

func TestProgressIsABarOnATerminalAndLinesOtherwise(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			m := &meter{out: &out, terminal: terminal, size: 100, started: time.Now(), shown: time.Now()}
			must.Get(io.CopyN(io.Discard, m.reads(strings.NewReader(strings.Repeat("x", 100))), 50)).In(t)
			m.show(10)
			require.Empty(t, out.String(), "progress is not printed for each batch")
			time.Sleep(10 * time.Second)
			m.show(12000)
			m.show(12500)
			m.clear()
			if !terminal {
				require.Equal(t, "12,000 items, 1200/s\n", out.String())
				return
			}
			require.Equal(t, "\r"+strings.Repeat("█", 15)+strings.Repeat("░",
				15)+"  50 %  12,000 items, 1200/s\x1b[K\r\x1b[K", out.String())
		})
	}
}
