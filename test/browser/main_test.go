package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	// startTimeout bounds the start of everything that the tests share, on a busy machine.
	startTimeout = 4 * time.Minute
	// patience is how long a test waits for an expected event before it fails.
	patience = time.Minute
	// manyItems is how many items of the full database have ended.
	manyItems = 300_000
	// adminToken allows changes, viewToken allows only reading.
	adminToken, viewToken = "0123456789abcdef", "fedcba9876543210"
)

// screenshots is the directory for the documentation's screenshots.
var screenshots = flag.String("screenshots", "",
	"directory for the documentation's screenshots; empty: they are only checked")

// demo is the link that make run prints, while items are enqueued there.
var demo = flag.String("demo", "", "link to a replica's web view under load, for the screenshots of the overview")

// shared is used by all tests.
var shared struct {
	cluster  *sqltest.Cluster
	temporal string          // its address
	binary   string          // pgdispatch
	browser  context.Context // chromedp's
	// full has much of everything, empty has nothing. acting is another replica on full's database, signed in to make
	// changes. watched is acting, signed in to read only.
	full, empty, acting, watched *site
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	if err := withShared(func() { code = m.Run() }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// withShared starts the shared parts, runs the tests, and stops the parts.
func withShared(run func()) (err error) {
	dir, err := os.MkdirTemp("", "pgdispatch-browser-*")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if shared.cluster, err = sqltest.StartCluster(ctx, sqltest.Options{}); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, shared.cluster.Stop()) }()
	address, stopTemporal, err := startTemporal(dir)
	if err != nil {
		return err
	}
	defer stopTemporal()
	shared.temporal = address
	closeBrowser, err := startBrowser(filepath.Join(dir, "profile"))
	if err != nil {
		return err
	}
	defer closeBrowser()
	shared.binary = filepath.Join(dir, "pgdispatch")
	var g errgroup.Group
	g.Go(func() error { return stack.Build("../..", shared.binary) })
	g.Go(func() (err error) { shared.full, err = newSite(ctx, "full", manyItems); return err })
	g.Go(func() (err error) { shared.empty, err = newSite(ctx, "empty", 0); return err })
	if err := g.Wait(); err != nil {
		return err
	}
	defer shared.full.close()
	defer shared.empty.close()
	shared.acting = &site{database: shared.full.database, db: shared.full.db, user: "anna:" + adminToken}
	tokens := []string{"PGDISPATCH_ADMIN_TOKEN=" + adminToken, "PGDISPATCH_VIEW_TOKEN=" + viewToken}
	for s, tokens := range map[*site][]string{shared.full: nil, shared.empty: nil, shared.acting: tokens} {
		if err := s.start(ctx, tokens...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.replica.Kill()) }()
	}
	watched := *shared.acting
	watched.user = "wall:" + viewToken
	shared.watched = &watched
	if err := shared.full.enqueue(ctx); err != nil {
		return err
	}
	run()
	return nil
}

// startBrowser starts Chromium with a profile of its own. It ends with this process at the latest.
func startBrowser(profile string) (stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(profile),
		// Chromium must not look up anything else.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"))
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil { // Debian's name, which chromedp does not know
		options = append(options, chromedp.ExecPath(path))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	stop = func() { stopBrowser(); stopAllocator() }
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start Chromium, of Debian's package chromium: %w", err)
	}
	shared.browser = browser
	return stop, nil
}

// await returns when the condition holds. The condition may fail the test.
func await(t testing.TB, condition func() bool, message string, about ...any) {
	t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("timeout: "+message, about...)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
