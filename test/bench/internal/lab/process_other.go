//go:build !linux

package lab

import "syscall"

// dieWithParent does nothing on systems without a parent death signal.
func dieWithParent(*syscall.SysProcAttr) {}
