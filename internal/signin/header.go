package signin

import (
	"net/http"
	"net/netip"
	"slices"
)

// Header takes the visitor's name and roles from headers that a proxy sets.
type Header struct {
	// Name and Roles are the headers' names. Roles holds roles or groups, separated by commas, so that none may contain
	// one.
	Name, Roles string
	// Proxies are the addresses of the proxies. Headers from elsewhere are ignored.
	Proxies []netip.Prefix
	Grants  Roles
}

// Visitor returns whom the proxy names. It is false if the request is not from a proxy, if a header is missing or there
// more than once, or if the roles allow nothing.
func (h *Header) Visitor(r *http.Request) (Visitor, bool) {
	names, roles := r.Header.Values(h.Name), r.Header.Values(h.Roles)
	if len(names) != 1 || names[0] == "" || len(roles) != 1 || !h.trusts(r.RemoteAddr) {
		return Visitor{}, false
	}
	rights, looks := h.Grants.grant(list(roles[0]))
	return Visitor{Name: names[0], Via: "proxy", Rights: rights}, looks
}

func (h *Header) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(h.Proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
