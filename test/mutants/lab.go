package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// testTimeout bounds the tests of one mutant, without their build. A mutant that makes its test wait forever is
	// caught.
	testTimeout = 45 * time.Second
	// simulationTimeout bounds the seeds of one mutant, if their number was given.
	simulationTimeout = 14 * time.Minute
	// baselineTimeout bounds all named tests of a package.
	baselineTimeout = 5 * time.Minute
	// runTimeout includes the build, which takes minutes with an empty build cache.
	runTimeout = 15 * time.Minute
)

// verdict is the result of testing a mutant.
type verdict string

const (
	// red: the named test failed, as it should.
	red verdict = "red"
	// hung: the named test timed out. It counts as red.
	hung verdict = "hung"
	// crashed: the test process crashed. It counts as red.
	crashed verdict = "crashed"
	// survived: the named test passed without the guard.
	survived verdict = "SURVIVED"
	// broken: the mutant does not build or its SQL is invalid, so the failure says nothing about the guard.
	broken verdict = "BROKEN"
	// stale: the guard's text is no longer where the mutant looks for it.
	stale verdict = "STALE"
)

func (v verdict) pass() bool { return v == red || v == hung || v == crashed }

// remedy returns what to do about a mutant that did not pass.
func (v verdict) remedy() string {
	switch v {
	case survived:
		return "write a test that fails without the guard, or take the guard away"
	case broken:
		return "mend the mutant: it must build, and its SQL must run"
	default:
		return "point the mutant at the guard as it is now"
	}
}

// result is the result of testing one mutant.
type result struct {
	mutant  mutant
	verdict verdict
	took    time.Duration
	output  string
}

// lab tests mutants of the product.
type lab struct {
	*product
	// seeds is how many seeds of the replica simulation a mutant is tested with. Zero means as many as it has by itself.
	seeds int
}

// test tests one mutant.
func (l lab) test(ctx context.Context, m mutant) result {
	began := time.Now()
	texts, err := m.mutated(l.product)
	if err != nil {
		return result{mutant: m, verdict: stale, output: err.Error()}
	}
	output, err := l.goTest(ctx, texts, l.atMost(testTimeout), m.pkg, "-v", "-run", only(m.test))
	return result{m, judge(m.test, output, err), time.Since(began), output}
}

// atMost returns a timeout, which seeds may exceed.
func (l lab) atMost(timeout time.Duration) time.Duration {
	if l.seeds > 0 {
		return simulationTimeout
	}
	return timeout
}

// only returns the pattern of these tests.
func only(tests ...string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// baseline runs the named tests of all mutants without any mutant: they must exist and pass.
func (l lab) baseline(ctx context.Context, list []mutant) error {
	tests := map[string][]string{}
	for _, m := range list {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		output, err := l.goTest(ctx, nil, l.atMost(baselineTimeout), pkg, "-v", "-run", only(tests[pkg]...))
		if err != nil {
			return fmt.Errorf("test %s without any mutant: %w\n%s", pkg, err, tail(output))
		}
		for _, test := range tests[pkg] {
			if !strings.Contains(output, "--- PASS: "+test+" ") {
				return fmt.Errorf("test %s without any mutant: there is no %s", pkg, test)
			}
		}
	}
	return nil
}

// goTest runs tests of a package, which together take at most timeout, with these texts of files. Those also hold where
// such a test builds the product.
func (l lab) goTest(
	ctx context.Context, texts map[string]string, timeout time.Duration, pkg string, args ...string,
) (string, error) {
	directory, err := os.MkdirTemp("", "pgdispatch-mutant-")
	if err != nil {
		return "", fmt.Errorf("make room for a mutant: %w", err)
	}
	defer os.RemoveAll(directory) //nolint:errcheck // a temporary directory
	overlay, err := l.overlay(texts, directory)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, runTimeout)
	defer stop()
	module := "."
	if below, found := strings.CutPrefix(pkg, "./test/"); found {
		module, pkg = "test", "./"+below
	}
	args = append([]string{"test", "-C", module, "-count=1", "-vet=off", "-timeout", timeout.String()}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = l.root
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay+" "+os.Getenv("GOFLAGS"))
	if l.seeds > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("PGDISPATCH_SEEDS=", l.seeds))
	}
	// The group includes the test, which go does not stop.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	output := &firstFailure{stop: stop}
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	return output.text.String(), err
}

// firstFailure is the output of go test -v, and stops it when a test or a seed has failed. The flag -failfast does not:
// tests that run in parallel have all begun by then.
type firstFailure struct {
	text bytes.Buffer
	stop func()
}

func (f *firstFailure) Write(part []byte) (int, error) {
	if bytes.HasPrefix(part, []byte("--- FAIL: ")) || bytes.Contains(part, []byte("\n--- FAIL: ")) ||
		aSeed.Match(part) {
		f.stop()
	}
	return f.text.Write(part)
}

// badSQL matches the errors of invalid statements. A missing guard does not cause these.
var badSQL = regexp.MustCompile(`SQLSTATE 42(601|703|704|804|846|883|P01|P02|P10|P18)`)

// isInvalid reports whether the output shows that the changed product does not build, or that its SQL is invalid.
func isInvalid(output string) bool {
	return badSQL.MatchString(output) || strings.Contains(output, "[build failed]") ||
		strings.Contains(output, "[setup failed]")
}

func timedOut(output string) bool { return strings.Contains(output, "panic: test timed out after") }

// judge returns the verdict for the output of go test and the error that it ended with.
func judge(test, output string, err error) verdict {
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(output, "--- PASS: "+test+" "):
		return survived
	case test == simulation && aSeed.MatchString(output): // then the test was stopped
		return red
	case !errors.As(err, &exit), isInvalid(output):
		return broken
	case timedOut(output):
		return hung
	case strings.Contains(output, "--- FAIL: "+test+" "):
		return red
	case strings.Contains(output, "=== RUN   "+test+"\n") && strings.Contains(output, "panic: "):
		return crashed
	default:
		return broken
	}
}
