package replica

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// smallHeap is the largest live heap, in bytes, that is collected at smallHeapPercent. A replica with small params
	// stays below it. At Go's default of 100, a replica under load spends a fifth of its time collecting a few
	// megabytes.
	smallHeap        = 16 << 20
	smallHeapPercent = 400
	// largeHeapPercent is Go's default. With params of megabytes, collection is cheap relative to the memory it saves.
	largeHeapPercent = 100
)

// collectByHeap makes garbage collection rare while the heap is small. GOGC overrides it.
func collectByHeap() {
	if os.Getenv("GOGC") == "" {
		afterCollection(debug.SetGCPercent, smallHeapPercent)
	}
}

// afterCollection sets the GC percentage now, and again after each collection according to the live heap.
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

// liveHeap returns the heap that the last collection left, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
