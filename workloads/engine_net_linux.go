//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// connect gives the container a veth pair: one end on the bridge, the other,
// eth0, in its network namespace with an address and a default route.
//
// The inner end is created where it belongs (IFLA_NET_NS_FD) instead of being
// moved: a move waits for RCU twice (__dev_change_net_namespace).
func (c *engineContainer) connect() error {
	if c.spec.Network != "bridge" {
		return nil
	}
	ns, err := netns.GetFromPid(c.pid)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer host.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = vethName(c.dir, c.id), c.spec.Bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns))}
	err = host.LinkAdd(veth)
	c.link = veth.Attrs().Index
	if err != nil {
		return fmt.Errorf("add veth %s: %w", attrs.Name, err)
	}
	if err := host.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return c.configure(ns)
}

// configure sets eth0 up inside of the namespace.
func (c *engineContainer) configure(ns netns.NsHandle) error {
	addr, gateway, err := addressOf(c.spec.Bridge.Gateway, c.id)
	if err != nil {
		return err
	}
	inside, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in the container: %w", err)
	}
	defer inside.Close()
	eth0, err := inside.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	if err := inside.AddrAdd(eth0, &netlink.Addr{IPNet: addr}); err != nil {
		return fmt.Errorf("address of eth0: %w", err)
	}
	if err := inside.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("set eth0 up: %w", err)
	}
	if err := inside.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: gateway}); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	return nil
}

// disconnect deletes the veth pair and waits for it, as docker does before a
// container counts as removed. The namespace's own end would delete it too,
// some time later.
func (c *engineContainer) disconnect() error {
	if c.link == 0 {
		return nil
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: c.link}}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete veth: %w", err)
	}
	return nil
}

// addressOf picks one of the 253 addresses after the gateway's for a
// container.
func addressOf(gateway, id string) (*net.IPNet, net.IP, error) {
	p, err := netip.ParsePrefix(gateway)
	if err != nil || !p.Addr().Is4() || p.Bits() != bridgeBits {
		return nil, nil, fmt.Errorf("gateway %q: want an IPv4 address/%d", gateway, bridgeBits)
	}
	n, err := strconv.Atoi(id[1:])
	if err != nil {
		h := fnv.New32a()
		h.Write([]byte(id))
		n = int(h.Sum32() >> 1)
	}
	a := p.Addr().As4()
	ip := net.IPv4(a[0], a[1], a[2], byte(2+n%253))
	return &net.IPNet{IP: ip, Mask: net.CIDRMask(bridgeBits, 32)}, net.IP(a[:]), nil
}

const bridgeBits = 24 // prefix length of a bridge's network

// makeBridge makes the bridge of a state folder, with an address in a network
// that nothing here uses.
func makeBridge(dir string) (engineBridge, error) {
	b := engineBridge{Name: bridgeName(dir)}
	gateway, err := freeNetwork(b.Name)
	if err != nil {
		return b, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = b.Name
	link := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(link); err != nil {
		return b, fmt.Errorf("add bridge %s: %w", b.Name, err)
	}
	b.Index, b.Gateway = link.Attrs().Index, gateway.String()
	addr, err := netlink.ParseAddr(b.Gateway)
	if err != nil {
		return b, err
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return b, fmt.Errorf("address of bridge %s: %w", b.Name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return b, fmt.Errorf("set bridge %s up: %w", b.Name, err)
	}
	return b, nil
}

// freeNetwork finds a /24 in 10.0.0.0/8 that overlaps no route and no address,
// beginning at a place that depends on seed, so that two copies that look at
// the same time find different ones.
func freeNetwork(seed string) (gateway netip.Prefix, err error) {
	used, err := usedNetworks()
	if err != nil {
		return netip.Prefix{}, err
	}
	h := fnv.New32a()
	h.Write([]byte(seed))
	const networks = 1 << 16
	for i := range uint32(networks) {
		n := (h.Sum32() + i) % networks
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}), bridgeBits)
		free := true
		for _, u := range used {
			free = free && !p.Masked().Overlaps(u)
		}
		if free {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.New("bridge: every network of 10.0.0.0/8 is in use")
}

func usedNetworks() ([]netip.Prefix, error) {
	var used []netip.Prefix
	add := func(n *net.IPNet) {
		if n == nil {
			return
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		ones, _ := n.Mask.Size()
		if ok && ones > 0 {
			used = append(used, netip.PrefixFrom(ip.Unmap(), ones).Masked())
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	for _, r := range routes {
		add(r.Dst)
	}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	for _, a := range addrs {
		add(a.IPNet)
	}
	return used, nil
}

// removeLinks deletes the interfaces of a state folder, or of one container of
// it when id is given.
func removeLinks(dir, id string) error {
	prefixes := []string{vethPrefix + linkTag(dir), bridgeName(dir)}
	exact := id != ""
	if exact {
		prefixes = []string{vethName(dir, id)}
	}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // it may be cut short by a change meanwhile
		return fmt.Errorf("interfaces: %w", err)
	}
	var errs []error
	for _, prefix := range prefixes { // veths first: a bridge's removal is then cheap
		for _, l := range links {
			name := l.Attrs().Name
			if name != prefix && (exact || !strings.HasPrefix(name, prefix)) {
				continue
			}
			if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, fmt.Errorf("delete %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// hasLink says whether the kernel has an interface of that name,
// without a netlink dump.
func hasLink(name string) bool {
	_, err := os.Lstat("/sys/class/net/" + name)
	return err == nil
}
