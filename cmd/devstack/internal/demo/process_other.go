//go:build !linux

package demo

import "syscall"

// dieWithParent does nothing on systems without a parent death signal.
func dieWithParent(*syscall.SysProcAttr) {}
