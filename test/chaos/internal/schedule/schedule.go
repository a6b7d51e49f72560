// Package schedule decides which faults occur when. It derives the schedule from a seed, so that a run can be
// repeated.
package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what a schedule needs to know of a fault.
type Kind struct {
	// Name is the fault's name.
	Name string
	// Domain is what the fault breaks. Two faults of one domain do not overlap, because lifting one would lift the
	// other.
	Domain string
	// Shortest and Longest bound how long it lasts.
	Shortest, Longest time.Duration
}

// Entry is one fault at one time.
type Entry struct {
	// Fault is the fault's name.
	Fault string
	// At is when the fault begins, relative to the phase. It is zero if the fault begins when the previous one is
	// over.
	At time.Duration
	// Hold is how long the fault lasts.
	Hold time.Duration
	// Seed seeds the fault's own choices.
	Seed uint64
}

// String returns one line of the printed schedule.
func (e Entry) String() string {
	return fmt.Sprintf("%6.1fs  %-32s for %4.1fs  seed %d", e.At.Seconds(), e.Fault, e.Hold.Seconds(), e.Seed)
}

// The streams keep the phases' random numbers independent.
const (
	streamMeasured = 1
	streamSafety   = 2
)

// Measured schedules each kind once, in an order that depends on the seed. The faults do not overlap, so that each
// figure is due to one fault.
func Measured(seed uint64, kinds []Kind) []Entry {
	rng := rand.New(rand.NewPCG(seed, streamMeasured))
	entries := make([]Entry, 0, len(kinds))
	for _, n := range rng.Perm(len(kinds)) {
		entries = append(entries, entry(rng, kinds[n]))
	}
	return entries
}

// Shard returns one part of a schedule that is divided into several. Parts are numbered from 1.
func Shard(entries []Entry, shard, shards int) []Entry {
	return entries[len(entries)*(shard-1)/shards : len(entries)*shard/shards]
}

// Safety fills a period with overlapping faults, at most one of each domain at any moment.
func Safety(seed uint64, kinds []Kind, length time.Duration) []Entry {
	rng := rand.New(rand.NewPCG(seed, streamSafety))
	const rest = 3 * time.Second // the maximum between two faults of a domain
	domains := map[string][]Kind{}
	var names []string
	for _, k := range kinds {
		if domains[k.Domain] == nil {
			names = append(names, k.Domain)
		}
		domains[k.Domain] = append(domains[k.Domain], k)
	}
	slices.Sort(names)
	var entries []Entry
	for _, name := range names {
		for at := jitter(rng, 0, rest); ; {
			e := entry(rng, domains[name][rng.IntN(len(domains[name]))])
			e.At = at
			if at+e.Hold > length {
				break
			}
			entries = append(entries, e)
			at += e.Hold + jitter(rng, time.Second, rest)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	return entries
}

func entry(rng *rand.Rand, k Kind) Entry {
	return Entry{Fault: k.Name, Hold: jitter(rng, k.Shortest, k.Longest).Round(10 * time.Millisecond),
		Seed: rng.Uint64N(1 << 32)}
}

// jitter returns a random duration between two durations.
func jitter(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	if longest <= shortest {
		return shortest
	}
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}
