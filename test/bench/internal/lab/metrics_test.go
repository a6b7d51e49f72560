package lab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetricsAreSummedOverTheirLabels(t *testing.T) {
	t.Parallel()
	sums, err := parseMetrics(strings.NewReader("# HELP a what\na 2\nb{x=\"1 } 9\",y=\"{\"} 3\nb{x=\"2\"} 4.5\n\nc " +
		"1e+03 1700000000\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"a": 2, "b": 7.5, "b 2": 4.5, "c": 1000}, sums)

	_, err = parseMetrics(strings.NewReader("a\n"))
	require.ErrorContains(t, err, `"a" has no value`)
}
