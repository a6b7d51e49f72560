//go:build !linux

package sqltest

import "syscall"

// dieWithParent does nothing where there is no parent death signal: a server whose owner was killed
// runs on until the next StartCluster sweeps its directory away.
func dieWithParent(*syscall.SysProcAttr) {}
