//go:build !linux

package sqltest

import "syscall"

// dieWithParent does nothing on systems without a parent death signal. A server whose owner was killed runs on until
// the next StartCluster removes its directory.
func dieWithParent(*syscall.SysProcAttr) {}
