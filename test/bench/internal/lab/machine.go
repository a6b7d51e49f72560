package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/stat"
)

// clockTick is a unit of /proc's CPU times: USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// procStat is what /proc/<pid>/stat says of one process. Its CPU time, and that of children it has buried.
type procStat struct {
	parent      int
	own, buried time.Duration
}

// readStat reads /proc/<pid>/stat. The name in it may hold anything, so what is read begins after its last bracket.
func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (procStat, error) {
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) < 15 {
		return procStat{}, fmt.Errorf("read process state: %q", text)
	}
	number := func(field int) time.Duration {
		n, _ := strconv.ParseInt(fields[field], 10, 64) // the kernel writes numbers
		return time.Duration(n) * clockTick
	}
	parent, _ := strconv.Atoi(fields[1])
	return procStat{parent: parent, own: number(11) + number(12), buried: number(13) + number(14)}, nil
}

// CPU is the CPU time that the process has used so far.
func (p *Process) CPU() (time.Duration, error) {
	s, err := readStat(p.PID)
	return s.own, err
}

// ServerCPU is the CPU time that the server and all its backends have used so far, those that have ended included.
func (l *Lab) ServerCPU() (time.Duration, error) {
	server, err := readStat(l.Cluster.PID())
	if err != nil {
		return 0, err
	}
	total := server.own + server.buried
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if s, err := readStat(pid); err == nil && s.parent == l.Cluster.PID() { // one that has just ended is counted as buried
			total += s.own
		}
	}
	return total, nil
}

// BackendCPU is the CPU time that one backend has used so far, to the nanosecond once it waits again.
func BackendCPU(pid uint32) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, fmt.Errorf("read a backend's CPU time: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read a backend's CPU time: %w", err)
	}
	return time.Duration(n), nil
}

// Machine is where a run took place.
type Machine struct {
	Cores        int
	CPU, Kernel  string
	Go, Postgres string
	Fsync        time.Duration // median of an 8 kB write and fsync where the cluster's data is
	LoadAverage  string        // as the run began
	MemoryGB     float64
	River        string // its version
}

var (
	modelName = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)
	memTotal  = regexp.MustCompile(`(?m)^MemTotal:\s*(\d+) kB$`)
)

// Look describes the machine.
func (l *Lab) Look() (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: "unknown", Kernel: runtime.GOOS}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if found := modelName.FindSubmatch(text); found != nil {
			m.CPU = string(found[1])
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if found := memTotal.FindSubmatch(text); found != nil {
			kilobytes, _ := strconv.ParseFloat(string(found[1]), 64)
			m.MemoryGB = kilobytes / (1 << 20)
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.LoadAverage = strings.Join(strings.Fields(string(text))[:3], ", ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/riverqueue/river" {
				m.River = module.Version
			}
		}
	}
	var err error
	m.Fsync, err = fsyncTime(l.Cluster.Dir)
	return m, err
}

func fsyncTime(dir string) (time.Duration, error) {
	file, err := os.CreateTemp(dir, "fsync-*")
	if err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	page := make([]byte, 8192)
	var samples []float64
	for range 200 {
		began := time.Now()
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		samples = append(samples, float64(time.Since(began)))
	}
	return time.Duration(stat.Median(samples)), nil
}
