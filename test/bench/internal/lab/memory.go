package lab

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var residentSize = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// Memory returns the process's resident memory in bytes.
func (p *Process) Memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, fmt.Errorf("read memory of %s: %w", p.Name, err)
	}
	found := residentSize.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("read memory of %s: the kernel does not say", p.Name)
	}
	kilobytes, err := strconv.ParseFloat(string(found[1]), 64)
	return kilobytes * 1024, err
}
