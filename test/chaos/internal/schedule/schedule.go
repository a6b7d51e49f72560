// Package schedule decides which faults come when: from a seed, so that a run can be repeated.
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
	// Name is the fault's.
	Name string
	// Domain is what it breaks: two faults of one domain do not overlap, because the one would lift the other.
	Domain string
	// Shortest and Longest say how long it stays.
	Shortest, Longest time.Duration
}

// Entry is one fault at one time.
type Entry struct {
	// Fault is its name.
	Fault string
	// At is when it begins, after the phase's own beginning; 0 where it begins when the one before is over.
	At time.Duration
	// Hold is how long it stays.
	Hold time.Duration
	// Seed is for all that the fault itself chooses.
	Seed uint64
}

// String is one line of the printed schedule.
func (e Entry) String() string {
	return fmt.Sprintf("%6.1fs  %-32s for %4.1fs  seed %d", e.At.Seconds(), e.Fault, e.Hold.Seconds(), e.Seed)
}

// streams keep the phases' random numbers apart.
const (
	streamMeasured = 1
	streamSafety   = 2
)

// Measured puts each kind into the schedule once, in an order of the seed's. They follow one another, so that what is
// measured is due to one of them.
func Measured(seed uint64, kinds []Kind) []Entry {
	rng := rand.New(rand.NewPCG(seed, streamMeasured))
	entries := make([]Entry, 0, len(kinds))
	for _, n := range rng.Perm(len(kinds)) {
		entries = append(entries, entry(rng, kinds[n]))
	}
	return entries
}

// Shard is one part of a schedule that is run in several, from 1.
func Shard(entries []Entry, shard, shards int) []Entry {
	return entries[len(entries)*(shard-1)/shards : len(entries)*shard/shards]
}

// Safety fills a time with faults that overlap, up to one of each domain at any moment.
func Safety(seed uint64, kinds []Kind, length time.Duration) []Entry {
	rng := rand.New(rand.NewPCG(seed, streamSafety))
	const rest = 3 * time.Second // between two faults of a domain, at the most
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
	return Entry{Fault: k.Name, Hold: jitter(rng, k.Shortest, k.Longest).Round(10 * time.Millisecond), Seed: rng.Uint64N(1 << 32)}
}

// jitter is between two durations.
func jitter(rng *rand.Rand, shortest, longest time.Duration) time.Duration {
	if longest <= shortest {
		return shortest
	}
	return shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
}
