package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

const (
	configFlag     = "config"
	configVariable = "PGDISPATCH_CONFIG"
)

// fileValue is a value from the configuration file, with its position for error messages.
type fileValue struct{ text, place string }

// key returns the option's name in the configuration file.
func (o Option) key() string { return strings.ReplaceAll(o.Flag, "-", "_") }

// readConfigFile reads the values of a YAML file by key. All commands share one file, so any option of `run` is
// allowed. It reports all syntax errors at once. Values are checked only by the commands that use them.
func readConfigFile(path string) (map[string]fileValue, error) {
	file, err := os.Open(path) //nolint:gosec // the user chooses the path
	if err != nil {
		return nil, fmt.Errorf("%w: name a file that exists and is readable", err)
	}
	defer func() { _ = file.Close() }()
	decoder := yaml.NewDecoder(file)
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF): // empty or comments only
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it must contain exactly one YAML document")
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it must be a mapping with lines such as \"workers: 10\"")
	}
	return readValues(path, root.Content)
}

func readValues(path string, nodes []*yaml.Node) (map[string]fileValue, error) {
	values := map[string]fileValue{}
	var faults []error
	for pair := range slices.Chunk(nodes, 2) {
		key, value := pair[0].Value, pair[1]
		place := fmt.Sprintf("%s in line %d of %s", key, pair[0].Line, path)
		_, twice := values[key]
		switch {
		case !slices.ContainsFunc(RunOptions, func(o Option) bool { return o.key() == key }):
			faults = append(faults, fmt.Errorf("unknown key %s: %s", place, nearestKey(key)))
		case twice:
			faults = append(faults, fmt.Errorf("duplicate key %s: remove one", place))
		case value.Kind != yaml.ScalarNode:
			faults = append(faults, fmt.Errorf("%s must be one value, such as %q", place, "workers: 10"))
		case value.Tag == "!!null": // counts as unset
		default:
			values[key] = fileValue{value.Value, place}
		}
	}
	return values, errors.Join(faults...)
}

// nearestKey suggests the key that was probably meant, or lists all keys.
func nearestKey(key string) string {
	keys := make([]string, len(RunOptions))
	for n, o := range RunOptions {
		keys[n] = o.key()
	}
	normal := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	nearest := slices.MinFunc(keys, func(a, b string) int {
		return spelling.Distance(normal, a) - spelling.Distance(normal, b)
	})
	if spelling.Distance(normal, nearest) <= max(2, len(nearest)/3) {
		return fmt.Sprintf("did you mean %s?", nearest)
	}
	return "the keys are " + strings.Join(keys, ", ")
}
