package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Metrics reads a replica's metrics, each summed over its labels; those with one label also as "name value".
func (p *Process) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := p.Read(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(bytes.NewReader(text))
}

// Read returns what a replica's administrative address answers.
func (p *Process) Read(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, p.Name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, p.Name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s of %s: %s", path, p.Name, response.Status)
	}
	return io.ReadAll(response.Body)
}

// oneLabel matches the only label of a line.
var oneLabel = regexp.MustCompile(`^[^{]*\{[^=,]+="([^"]*)"\}`)

// parseMetrics reads Prometheus' text format: each line is a name, optional labels in braces, and a value.
func parseMetrics(text io.Reader) (map[string]float64, error) {
	sums := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if n := strings.IndexByte(line, '{'); n >= 0 {
			name, rest = line[:n], line[strings.LastIndexByte(line, '}')+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return nil, fmt.Errorf("read metrics: %q has no value", line)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		sums[name] += value
		if label := oneLabel.FindStringSubmatch(line); label != nil {
			sums[name+" "+label[1]] += value
		}
	}
	return sums, lines.Err()
}
