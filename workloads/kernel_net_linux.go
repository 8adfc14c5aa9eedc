//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func netPrimitives() []primitive {
	one := func(f func(*linkBench) *steps) func(*bench) (*steps, error) {
		return func(w *bench) (*steps, error) { return newLinkSteps(w, f) }
	}
	return []primitive{
		{name: "veth-add", summary: "netlink: add a veth pair", open: one(func(l *linkBench) *steps {
			return &steps{do: l.add, after: l.del}
		})},
		{name: "veth-move", summary: "netlink: move one end of a veth pair into another network namespace", open: one(func(l *linkBench) *steps {
			return &steps{before: l.add, do: l.move, after: l.del}
		})},
		{name: "veth-up", summary: "netlink: set one end of a veth pair up", open: one(func(l *linkBench) *steps {
			return &steps{before: l.add, do: l.up, after: l.del}
		})},
		{name: "veth-del", summary: "netlink: delete a veth pair", open: one(func(l *linkBench) *steps {
			return &steps{before: l.add, do: l.del}
		})},
		{name: "bridge-add", summary: "netlink: add a bridge", open: one(func(l *linkBench) *steps {
			return &steps{do: l.addBridge, after: l.delBridge}
		})},
		{name: "bridge-attach", summary: "netlink: attach one end of a veth pair to a bridge", open: one(func(l *linkBench) *steps {
			return &steps{before: func() error { return errors.Join(l.addBridge(), l.add()) }, do: l.attach,
				after: func() error { return errors.Join(l.del(), l.delBridge()) }}
		})},
		{name: "bridge-del", summary: "netlink: delete a bridge", open: one(func(l *linkBench) *steps {
			return &steps{before: l.addBridge, do: l.delBridge}
		})},
	}
}

// linkBench is a veth pair, a bridge, and a network namespace to move to.
type linkBench struct {
	host   *netlink.Handle
	other  netns.NsHandle
	veth   *netlink.Veth
	bridge *netlink.Bridge
}

func newLinkSteps(w *bench, f func(*linkBench) *steps) (*steps, error) {
	l := &linkBench{other: netns.None()}
	var err error
	if l.host, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	if l.other, err = newNetns(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	a := netlink.NewLinkAttrs()
	a.Name = vethName(w.dir, engineID(1))
	l.veth = &netlink.Veth{LinkAttrs: a, PeerName: vethName(w.dir, engineID(2))}
	b := netlink.NewLinkAttrs()
	b.Name = bridgeName(w.dir)
	l.bridge = &netlink.Bridge{LinkAttrs: b}
	s := f(l)
	s.close = l.close
	return s, nil
}

// newNetns makes a network namespace that lasts as long as the handle.
func newNetns() (netns.NsHandle, error) {
	type made struct {
		ns  netns.NsHandle
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this
		ns, err := netns.New()
		done <- made{ns, err}
	}()
	d := <-done
	if d.err != nil {
		return netns.None(), fmt.Errorf("new network namespace: %w", d.err)
	}
	return d.ns, nil
}

func (l *linkBench) close() error {
	l.host.Close()
	if !l.other.IsOpen() {
		return nil
	}
	return l.other.Close()
}

func (l *linkBench) add() error {
	l.veth.Index = 0
	if err := l.host.LinkAdd(l.veth); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	return nil
}

func (l *linkBench) del() error       { return ignoreGone(l.host.LinkDel(l.veth)) }
func (l *linkBench) delBridge() error { return ignoreGone(l.host.LinkDel(l.bridge)) }
func (l *linkBench) up() error        { return l.host.LinkSetUp(l.veth) }
func (l *linkBench) move() error      { return l.host.LinkSetNsFd(l.peer(), int(l.other)) }
func (l *linkBench) attach() error    { return l.host.LinkSetMaster(l.veth, l.bridge) }

func (l *linkBench) addBridge() error {
	l.bridge.Index = 0
	return l.host.LinkAdd(l.bridge)
}

// peer is the other end, by its name.
func (l *linkBench) peer() netlink.Link {
	a := netlink.NewLinkAttrs()
	a.Name = l.veth.PeerName
	return &netlink.Veth{LinkAttrs: a}
}

// ignoreGone takes a link that is not there for deleted.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENODEV) || errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	return err
}
