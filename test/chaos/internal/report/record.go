package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/run"
)

// record is an outcome as stored in a file.
type record struct {
	Outcome *run.Outcome
	Results []savedResult
}

// savedResult is a fault's result with the fault's name.
type savedResult struct {
	Fault    string
	Value    float64
	Measured bool
	Err      string
}

func recordPath(dir string, shard, shards int) string {
	return filepath.Join(dir, fmt.Sprintf("chaos-%d-of-%d.json", shard, shards))
}

// Save stores the outcome of one shard of a run.
func Save(dir string, shard, shards int, o *run.Outcome) error {
	r := record{Outcome: o}
	for _, result := range o.Results {
		s := savedResult{Fault: result.Fault.Name, Value: result.Value, Measured: result.Measured}
		if result.Err != nil {
			s.Err = result.Err.Error()
		}
		r.Results = append(r.Results, s)
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(recordPath(dir, shard, shards), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("save outcome: %w", err)
	}
	return nil
}

// Merge combines the shards of a run. Complete is false while a shard is missing.
func Merge(dir string, shards int) (whole *run.Outcome, complete bool, err error) {
	for shard := 1; shard <= shards; shard++ {
		text, err := os.ReadFile(recordPath(dir, shard, shards))
		if errors.Is(err, os.ErrNotExist) {
			return nil, false, nil
		}
		var r record
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return nil, false, fmt.Errorf("read outcome: %w", err)
		}
		if r.Outcome.Results, err = restore(r.Results); err != nil {
			return nil, false, err
		}
		if whole == nil {
			whole = r.Outcome
			continue
		}
		whole.Add(r.Outcome)
	}
	return whole, true, nil
}

func restore(saved []savedResult) ([]fault.Result, error) {
	var results []fault.Result
	for _, s := range saved {
		r := fault.Result{Value: s.Value, Measured: s.Measured}
		for _, f := range fault.All() {
			if f.Name == s.Fault {
				r.Fault = f
			}
		}
		if r.Fault == nil {
			return nil, fmt.Errorf("read outcome: there is no fault %q any more", s.Fault)
		}
		if s.Err != "" {
			r.Err = errors.New(s.Err)
		}
		results = append(results, r)
	}
	return results, nil
}
