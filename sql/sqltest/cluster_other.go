//go:build !linux

package sqltest

import "syscall"

// dieWithParent does nothing on systems without a parent death signal. A server whose owner was killed runs on until
// the next StartCluster removes its directory.
func dieWithParent(*syscall.SysProcAttr) {}

// freeBytes returns how many bytes can be written below a directory. It is 0 if that is not known.
func freeBytes(string) uint64 { return 0 }
