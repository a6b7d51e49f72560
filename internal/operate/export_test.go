package operate

// Constants for tests.
const (
	DepthLimit  = depthLimit
	ItemsLooked = itemsLooked
)
