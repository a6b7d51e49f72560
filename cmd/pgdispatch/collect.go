package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// smallHeap is what a replica keeps with small params, and smallHeapPercent how much may come to it until garbage is
	// collected: at Go's default of 100, a replica under load spends a fifth of its time collecting some megabytes.
	smallHeap        = 16 << 20
	smallHeapPercent = 400
	// largeHeapPercent is Go's default: beside params of megabytes, collecting is cheap and memory is not.
	largeHeapPercent = 100
)

// collectByHeap has garbage collected rarely while the heap is small. GOGC overrides it.
func collectByHeap() {
	if os.Getenv("GOGC") == "" {
		afterCollection(debug.SetGCPercent, smallHeapPercent)
	}
}

// afterCollection sets how much may come to the heap, and does so anew after each collection, by what that has left.
func afterCollection(set func(int) int, percent int) {
	set(percent)
	sentinel := new([64]byte)
	runtime.AddCleanup(sentinel, func(struct{}) { afterCollection(set, percentFor(liveHeap())) }, struct{}{})
}

func percentFor(live uint64) int {
	if live <= smallHeap {
		return smallHeapPercent
	}
	return largeHeapPercent
}

// liveHeap is what the last collection has left.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
