package repeatable

// edit replaces a text in a file of Go's standard library. The text must occur exactly once, or as often as times says,
// so that a Go version with another text is noticed.
type edit struct {
	file     string // below GOROOT/src
	old, new string
	times    int // zero means once
}

// edits make the order of everything in a bubble of synctest follow from the seed that runtime.SimulateFrom is given.
// They fit Go 1.26. Each replaces a choice that Go makes by itself. Together they need one processor, no collector and
// no asynchronous preemption: see Command.
var edits = []edit{
	// The source of all choices. Only goroutines of a bubble draw from it: what the rest of the program does, and when,
	// must not change a run.
	{
		file: "runtime/rand.go",
		old:  "// rand32 is uint32(rand()), called",
		new: `// simulated is the state of the choices; zero means that nothing has been seeded.
var simulated uint64

// SimulateFrom makes all choices in bubbles follow from a seed.
func SimulateFrom(seed uint64) { simulated = seed*2 + 1 }

// inSimulation reports whether the current goroutine draws from the seed.
//
//go:nosplit
func inSimulation() bool {
	gp := getg().m.curg
	return simulated != 0 && gp != nil && gp.bubble != nil
}

// simulatedDraw is splitmix64.
//
//go:nosplit
func simulatedDraw() uint64 {
	simulated += 0x9e3779b97f4a7c15
	return simulatedMix(simulated)
}

//go:nosplit
func simulatedMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// simulatedRand is where package math/rand draws.
//
//go:linkname simulatedRand
func simulatedRand() uint64 {
	if inSimulation() {
		return simulatedDraw()
	}
	return rand()
}

// simulatedDrawn returns a number below n.
func simulatedDrawn(n uint32) uint32 {
	if !inSimulation() {
		return cheaprandn(n)
	}
	return uint32(uint64(uint32(simulatedDraw())) * uint64(n) >> 32)
}

// rand32 is uint32(rand()), called`,
	},
	{
		file: "math/rand/v2/rand.go",
		old:  "//go:linkname runtime_rand runtime.rand",
		new:  "//go:linkname runtime_rand runtime.simulatedRand",
	},
	{
		file: "math/rand/rand.go",
		old:  "//go:linkname runtime_rand runtime.rand",
		new:  "//go:linkname runtime_rand runtime.simulatedRand",
	},

	// The runtime itself draws when it makes and reads maps. It gets a number that follows from the last choice and
	// changes nothing: a cache that only the first run of a process fills would otherwise make it draw more than others.
	{
		file: "runtime/rand.go",
		old:  "func rand() uint64 {\n",
		new: `func rand() uint64 {
	if inSimulation() {
		return simulatedMix(simulated)
	}
`,
	},
	{
		file:  "internal/runtime/maps/map.go",
		old:   "m.seed = uintptr(rand())",
		new:   "m.seed = uintptr(0x9e3779b9)",
		times: 4,
	},
	{
		file: "internal/sync/hashtriemap.go",
		old:  "ht.seed = uintptr(runtime_rand())",
		new:  "ht.seed = uintptr(0x9e3779b9)",
	},

	// Hashes have a random seed, and some processors compute them with AES instructions.
	{
		file: "runtime/alg.go",
		old:  "hashkey[i] = uintptr(bootstrapRand())",
		new:  "hashkey[i] = uintptr(0x9e3779b9 * (i + 1))",
	},
	{
		file: "runtime/alg.go",
		old:  "		cpu.X86.HasAES && // AESENC\n",
		new:  "		false && cpu.X86.HasAES &&\n",
	},
	{
		file: "runtime/alg.go",
		old:  `GOARCH == "arm64" && cpu.ARM64.HasAES`,
		new:  `false && GOARCH == "arm64" && cpu.ARM64.HasAES`,
	},

	// A select takes one of the ready cases at random.
	{
		file: "runtime/select.go",
		old:  "j := cheaprandn(uint32(norder + 1))",
		new:  "j := simulatedDrawn(uint32(norder + 1))",
	},

	// A select locks its channels, and adds their timers, in the order of their addresses: here, in the order in which
	// they were made.
	{
		file: "runtime/chan.go",
		old:  "	bubble   *synctestBubble\n",
		new:  "	bubble   *synctestBubble\n	made     uintptr // counts channels\n",
	},
	{
		file: "runtime/chan.go",
		old:  "func makechan(t *chantype, size int) *hchan {\n",
		new:  "var madeChannels atomic.Uintptr\n\nfunc makechan(t *chantype, size int) *hchan {\n",
	},
	{
		file: "runtime/chan.go",
		old:  "	c.elemsize = uint16(elem.Size_)\n",
		new:  "	c.made = madeChannels.Add(1)\n	c.elemsize = uint16(elem.Size_)\n",
	},
	{
		file: "runtime/select.go",
		old:  "	return uintptr(unsafe.Pointer(c))\n",
		new:  "	return c.made\n",
	},

	// Timers of a bubble that fire at the same instant fire in a random order, on purpose.
	{
		file: "runtime/time.go",
		old:  "t.rand = cheaprand()",
		new:  "t.rand = simulatedDrawn(1 << 31)",
	},

	// A cancelled context cancels its children in the order of a map of pointers: here, in the order in which they came.
	{
		file: "context/context.go",
		old:  "children map[canceler]struct{} // set",
		new:  "children map[canceler]uint64 // set",
	},
	{
		file: "context/context.go",
		old:  "p.children = make(map[canceler]struct{})",
		new:  "p.children = make(map[canceler]uint64)",
	},
	{
		file: "context/context.go",
		old:  "p.children[child] = struct{}{}",
		new:  "p.children[child] = manyChildren.Add(1)",
	},
	{
		file: "context/context.go",
		old:  "	for child := range c.children {\n",
		new:  "	for _, child := range inOrder(c.children) {\n",
	},
	{
		file: "context/context.go",
		old:  "// A cancelCtx can be canceled.",
		new: `// manyChildren counts the children of all contexts.
var manyChildren atomic.Uint64

// inOrder returns children in the order in which they came.
func inOrder(children map[canceler]uint64) (list []canceler) {
	for child, number := range children {
		at := len(list)
		list = append(list, child)
		for at > 0 && children[list[at-1]] > number {
			list[at] = list[at-1]
			at--
		}
		list[at] = child
	}
	return list
}

// A cancelCtx can be canceled.`,
	},

	// A goroutine that another makes ready runs next, before those that wait already, unless one of the runtime's own ran
	// in between: here, it always waits for its turn.
	{
		file: "runtime/proc.go",
		old:  "	if !haveSysmon && next {\n",
		new:  "	if next {\n",
	},
	{
		file: "runtime/proc.go",
		old:  "pp.schedtick%61 == 0 && !sched.runq.empty()",
		new:  "false && !sched.runq.empty()",
	},

	// A goroutine is preempted after 10 ms, and a mutex hands over in another order after 1 ms, of real time.
	{
		file: "runtime/proc.go",
		old:  "const forcePreemptNS = 10 * 1000 * 1000 // 10ms",
		new:  "const forcePreemptNS = 1 << 60",
	},
	{
		file: "internal/sync/mutex.go",
		old:  "starvationThresholdNs = 1e6",
		new:  "starvationThresholdNs = 1 << 60",
	},
}
