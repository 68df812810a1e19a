package debugpage

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hosts are the hosts that a request may name. A web page of an attacker can make a browser send requests here under
// the attacker's host name (DNS rebinding), and read the answers. So names are refused unless they are known.
type hosts struct {
	names    map[string]bool // in lower case, without a dot at the end
	prefixes []netip.Prefix
}

// newHosts returns the hosts of Config.Hosts, and those of loopback.
func newHosts(named []string) hosts {
	h := hosts{
		names:    map[string]bool{"localhost": true},
		prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
	for _, text := range named {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			h.prefixes = append(h.prefixes, prefix.Masked())
			continue
		}
		name, address := splitHost(text)
		if address.IsValid() {
			h.prefixes = append(h.prefixes, netip.PrefixFrom(address, address.BitLen()))
		} else if name != "" {
			h.names[name] = true
		}
	}
	return h
}

// allow reports whether to serve a request. A browser cannot reach a Unix socket, and clients send any name there.
func (h hosts) allow(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	name, address := splitHost(r.Host)
	if !address.IsValid() {
		return h.names[name]
	}
	for _, prefix := range h.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// splitHost returns the name or the address of a host, without a port. The name is empty if the host has none.
func splitHost(host string) (name string, address netip.Addr) {
	if split, port, err := net.SplitHostPort(host); err == nil &&
		!strings.ContainsFunc(port, func(r rune) bool { return r < '0' || r > '9' }) {
		host = split
	} else if inside, ok := strings.CutPrefix(host, "["); ok {
		host, _ = strings.CutSuffix(inside, "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return "", address.Unmap().WithZone("")
	}
	if strings.ContainsAny(host, "/:@[]") {
		return "", netip.Addr{}
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), netip.Addr{}
}
