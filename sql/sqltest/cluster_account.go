package sqltest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that runs the server's programs. Postgres refuses to run as root, so for root it is another user.
// Otherwise it is the caller's own.
type account struct {
	name     string
	uid, gid int
	// change is set if the account is not the caller's own.
	change bool
}

// serverAccount returns the caller's own account, or for root the user postgres or else nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid())}, nil
	}
	var missing error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("read user %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: gid, change: true}, nil
	}
	return account{}, fmt.Errorf("find a user to run postgres as, which refuses root: %w", missing)
}

// own makes the account the owner of path.
func (a account) own(path string) error {
	if !a.change {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// attributes returns the attributes of a process of the account. It gets its own process group, so that Ctrl-C in the
// terminal reaches the cluster's owner but not the server directly.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.change {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	dieWithParent(attr)
	return attr
}
