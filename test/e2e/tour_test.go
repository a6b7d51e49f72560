package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	harness "github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// many is how many blocks of code on an item's way a file has that must be on the tour.
const many = 15

// tourLink is a link to a Go file in a page of docs/contributing.
var tourLink = regexp.MustCompile(`\]\(\.\./\.\./([^)]+\.go)\)`)

// The way is what a replica executes only if it has an item, from the insert until its workflow has ended.
func TestTheTourOfTheCodeGoesAnItemsWay(t *testing.T) {
	t.Parallel()
	covered := filepath.Join(t.TempDir(), "pgdispatch")
	golang(t, "build", "-cover", "-coverpkg=./...", "-o", covered, "./cmd/pgdispatch")
	idle := executed(newStack(t), covered, 0)
	way := map[string]int{} // the number of blocks of each file
	for block, file := range executed(newStack(t), covered, 1) {
		if idle[block] == "" {
			way[file]++
		}
	}

	page, err := os.ReadFile(filepath.Join(checkout, "docs/contributing/design.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Tour of the code\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	tour := map[string]bool{}
	for _, link := range tourLink.FindAllStringSubmatch(section, -1) {
		tour[link[1]] = true
		require.Contains(t, way, link[1], "the tour has it, but an item does not go there")
	}
	for file, blocks := range way {
		require.True(t, blocks < many || tour[file], "an item executes %d blocks of %s, and the tour lacks it", blocks, file)
	}
}

// executedBlock is a line of a coverage profile, with the file, of a block that was executed.
var executedBlock = regexp.MustCompile(`(?m)^github\.com/pgdispatch/pgdispatch/(\S+\.go):\S+ \d+ [1-9]\d*$`)

// executed starts a replica, waits until it has nothing to do, lets it complete some items, and returns the blocks of
// code that it has executed, each with its file.
func executed(s *stack, binary string, items int) map[string]string {
	s.t.Helper()
	dir := s.t.TempDir()
	replica, err := harness.Replica{Name: "a covered replica", Binary: binary, DatabaseURL: s.url, Temporal: s.temporal,
		Env: []string{"GOCOVERDIR=" + dir, "PGDISPATCH_LEASE=3s"}, LogPath: filepath.Join(dir, "log")}.Start()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, replica.Kill()) })
	_, err = harness.AwaitSaying(s.t.Context(), replica, harness.Listening)
	require.NoError(s.t, err)
	const renewed = "select coalesce(max(renewed_at)::text, '') from pgdispatch.replicas"
	for range 2 {
		before := one[string](s, renewed)
		s.eventually(func() bool { return one[string](s, renewed) > before }, "the replica renews its presence")
	}
	s.enqueue("PRO", "Echo", items)
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.workflow_execution_queue where status = 'COMPLETED'") == items
	}, "items complete")
	require.NoError(s.t, replica.Stop(time.Minute))

	profile := filepath.Join(dir, "profile")
	golang(s.t, "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)
	text, err := os.ReadFile(profile)
	require.NoError(s.t, err)
	blocks := map[string]string{}
	for _, block := range executedBlock.FindAllStringSubmatch(string(text), -1) {
		blocks[block[0]] = block[1]
	}
	return blocks
}

// golang runs the go command in the checkout and returns its output.
func golang(t testing.TB, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = checkout
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
