package workloads

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// engineBridge is the bridge in the host that containers are attached to.
type engineBridge struct {
	Name    string
	Index   int
	Gateway string // its address with the prefix length: 10.88.7.1/24
}

// engineID is the name of an operation's container.
func engineID(op int) string { return "c" + strconv.Itoa(op) }

// linkTag is what the names of the network interfaces of one state folder
// have in common. An interface's name has at most 15 bytes, which is too
// little for the folder's own name, so it is hashed: 7 digits to base 36.
func linkTag(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(filepath.Base(dir)))
	const digits, base7 = 7, 78364164096 // 36^7
	s := strconv.FormatUint(h.Sum64()%base7, 36)
	for len(s) < digits {
		s = "0" + s
	}
	return s
}

// Names of interfaces in the host: one bridge, and the host's end of the veth
// pair of each container.
const (
	bridgePrefix = "stbr"
	vethPrefix   = "stv"
)

func bridgeName(dir string) string { return bridgePrefix + linkTag(dir) }

// vethName is unique among the containers of a state folder that are alive at
// the same time: 5 digits to base 36 is what the name has room for.
func vethName(dir, id string) string {
	n, err := strconv.ParseUint(id[1:], 10, 64)
	if err != nil {
		h := fnv.New64a()
		h.Write([]byte(id))
		n = h.Sum64()
	}
	return vethPrefix + linkTag(dir) + strconv.FormatUint(n%60466176, 36) // 36^5
}

// vethPair connects one container to the bridge of its state folder.
type vethPair struct {
	dir    string // state folder
	id     string // of the container
	bridge engineBridge
}

// connect makes the pair for a container, whose init is pid: one end is on the
// bridge, the other, eth0, in the network namespace with an address and a
// default route. It gives the index of the host's end, also when something
// after its creation failed; 0 when there is none.
//
// The inner end is created where it belongs (IFLA_NET_NS_FD) instead of being
// moved: a move waits for RCU twice (__dev_change_net_namespace).
func (v vethPair) connect(pid int) (index int, err error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return 0, fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("netlink: %w", err)
	}
	defer host.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = vethName(v.dir, v.id), v.bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns))}
	err = host.LinkAdd(veth)
	index = veth.Attrs().Index
	if err != nil {
		return index, fmt.Errorf("add veth %s: %w", attrs.Name, err)
	}
	if err := host.LinkSetUp(veth); err != nil {
		return index, fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return index, v.configure(ns)
}

// configure sets eth0 up inside of the namespace.
func (v vethPair) configure(ns netns.NsHandle) error {
	addr, gateway, err := addressOf(v.bridge.Gateway, v.id)
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

// deleteLink deletes the host's end of a veth pair, and the other with it, and
// waits for it, as docker does before a container counts as removed. The
// namespace's own end would delete it too, some time later.
func deleteLink(index int) error {
	if index == 0 {
		return nil
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: index}}
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
