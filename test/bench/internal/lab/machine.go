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

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

// procStat is the content of /proc/<pid>/stat: CPU time of the process and of the children that it has reaped.
type procStat struct {
	parent      int
	own, buried time.Duration
}

// readStat reads /proc/<pid>/stat. The process name may contain anything, so fields are read after its last bracket.
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
		n, _ := strconv.ParseInt(fields[field], 10, 64) // the kernel writes only numbers here
		return time.Duration(n) * clockTick
	}
	parent, _ := strconv.Atoi(fields[1])
	return procStat{parent: parent, own: number(11) + number(12), buried: number(13) + number(14)}, nil
}

// CPU returns the CPU time that the process has used so far.
func (p *Process) CPU() (time.Duration, error) {
	s, err := readStat(p.PID)
	return s.own, err
}

// ServerCPU returns the CPU time that the server and all its backends have used so far, including backends that have
// ended.
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
		// A backend that has just ended is already counted as reaped.
		if s, err := readStat(pid); err == nil && s.parent == l.Cluster.PID() {
			total += s.own
		}
	}
	return total, nil
}

// BackendCPU returns the CPU time that one backend has used so far. It is exact to the nanosecond once the backend is
// idle.
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

// Machine describes where a run took place.
type Machine struct {
	Cores        int
	CPU, Kernel  string
	Go, Postgres string
	Fsync        time.Duration // median of an 8 kB write and fsync in the cluster's data directory
	LoadAverage  string        // at the start of the run
	MemoryGB     float64
	River        string // River's version
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
