package sqltest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that the server's programs run as. Postgres refuses to run as root, so root
// hands over to somebody else; everybody else stays who they are.
type account struct {
	name     string
	uid, gid int
	// change says that the account is not the caller's own.
	change bool
}

// serverAccount chooses the account: the caller's own, and for root the user postgres or else nobody.
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

// own gives path to the account.
func (a account) own(path string) error {
	if !a.change {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// attributes are those of a process of the account: a process group of its own, so that a Ctrl-C in
// the terminal reaches the owner of the cluster and not the server behind its back.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.change {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	dieWithParent(attr)
	return attr
}
