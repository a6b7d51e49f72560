package simulation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/test/simulation/repeatable"
)

const (
	// isWorker is the environment variable that makes the test program a worker: see serve.
	isWorker = "PGDISPATCH_SIMULATION_WORKER"
	// runTimeout limits one run. The longest of a million took a few seconds on a busy machine.
	runTimeout = 2 * time.Minute
	// buildTimeout limits the build of the worker, which takes two minutes with an empty build cache.
	buildTimeout = 15 * time.Minute
	// mostHeap is how much memory a worker fills before it collects garbage, between two runs.
	mostHeap = 512 << 20
)

// runs is where all tests make their runs.
var runs pool

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(isWorker) != "" {
		serve()
	}
	code := m.Run()
	runs.close()
	os.Exit(code)
}

// serve makes the runs that standard input asks for and writes their results to standard output, until the input ends.
// Then the process exits. A bubble needs a test, so this runs as one.
func serve() {
	in, out := gob.NewDecoder(os.Stdin), bufio.NewWriter(os.Stdout)
	results := gob.NewEncoder(out)
	os.Stdout = os.Stderr // for what the testing package prints
	worker := testing.InternalTest{Name: "Worker", F: func(t *testing.T) {
		for {
			var s scenario
			if err := in.Decode(&s); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			r := play(t, s)
			if err := errors.Join(results.Encode(r), out.Flush()); err != nil {
				t.Fatal(err)
			}
			collect()
		}
	}}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{worker}, nil, nil)
}

// collect collects garbage if there is much. The collector is off during a run, because it would interrupt goroutines.
func collect() {
	var memory runtime.MemStats
	if runtime.ReadMemStats(&memory); memory.HeapAlloc > mostHeap {
		runtime.GC()
	}
}

// pool makes runs in worker processes, one for each processor, built with the edited library. Where that is not
// possible, it makes them in this process, and they cannot be repeated.
type pool struct {
	once      sync.Once
	directory string
	program   string       // empty: runs are made here
	why       string       // runs cannot be repeated; empty if they can
	failed    error        // the program could not be built
	idle      chan *worker // as many as there are processors; one that has not begun is nil
}

// make makes the run of a scenario.
func (p *pool) make(t *testing.T, s scenario) result {
	t.Helper()
	p.once.Do(p.open)
	switch {
	case p.failed != nil:
		t.Fatal(p.failed)
	case p.program == "" && !raced && os.Getenv("CI") != "":
		t.Fatalf("seeds cannot be repeated, which CI refuses: %s", p.why)
	case p.program == "":
		return play(t, s)
	}

	w := <-p.idle
	defer func() { p.idle <- w }()
	if w == nil {
		w = startWorker(t, p.program)
	}
	r, err := w.make(s)
	if err != nil { // the product panicked, or the run does not end
		r = result{Said: "the process ended: " + err.Error()}
		w = nil
	}
	return r
}

// open builds the worker's program.
func (p *pool) open() {
	p.idle = make(chan *worker, runtime.GOMAXPROCS(0))
	for range cap(p.idle) {
		p.idle <- nil
	}
	if raced {
		p.why = "the race detector is on"
		return
	}

	ctx, stop := context.WithTimeout(context.Background(), buildTimeout)
	defer stop()
	directory, err := os.MkdirTemp("", "pgdispatch-simulation-")
	if err == nil {
		p.directory, p.program = directory, filepath.Join(directory, "worker")
		err = repeatable.Build(ctx, ".", p.program)
	}
	if errors.Is(err, repeatable.ErrUnknownGo) {
		p.program, p.why = "", err.Error()
		fmt.Fprintf(os.Stderr, "SEEDS CANNOT BE REPEATED with %s: %s\n"+
			"The simulation runs, but a seed that fails may not fail again. Use the Go version of test/go.mod, or adapt "+
			"test/simulation/repeatable/edits.go.\n", runtime.Version(), err)
	} else {
		p.failed = err
	}
}

// close ends all workers.
func (p *pool) close() {
	for range cap(p.idle) {
		if w := <-p.idle; w != nil {
			w.end()
		}
	}
	if p.directory != "" {
		_ = os.RemoveAll(p.directory)
	}
}

// worker is a process that makes one run after another.
type worker struct {
	process *exec.Cmd
	stop    context.CancelFunc
	in      io.WriteCloser
	ask     *gob.Encoder
	answers *gob.Decoder
	errors  bytes.Buffer // what it wrote to standard error, once it has ended
}

func startWorker(t *testing.T, program string, environment ...string) *worker {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{process: repeatable.Command(ctx, program), stop: stop}
	w.process.Env = append(append(w.process.Env, isWorker+"=1"), environment...)
	w.process.Stderr = &w.errors
	in, err := w.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
	w.in, w.ask, w.answers = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return w
}

// make makes a run. After an error, the worker must be ended.
func (w *worker) make(s scenario) (r result, err error) {
	timeout := time.AfterFunc(runTimeout, w.stop)
	defer timeout.Stop()
	if err = w.ask.Encode(s); err == nil {
		err = w.answers.Decode(&r)
	}
	if err != nil {
		w.end()
		return r, fmt.Errorf("%w\n%s", err, w.errors.Bytes()[:min(w.errors.Len(), 20_000)])
	}
	return r, nil
}

// end ends the worker, which a second call does not repeat.
func (w *worker) end() {
	_ = w.in.Close()
	kill := time.AfterFunc(time.Second, w.stop)
	defer kill.Stop()
	_ = w.process.Wait()
	w.stop()
}
