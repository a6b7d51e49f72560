//go:build !linux

package process

import "syscall"

// dieWithParent does nothing on systems without a parent death signal.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
