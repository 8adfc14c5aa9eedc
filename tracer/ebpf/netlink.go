//go:build linux

package ebpf

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// netlinkTypes names message types of a netlink protocol.
type netlinkTypes struct {
	protocol uint16
	name     string // of the protocol, in an address
	types    map[uint16]string
}

var netlinkProtocols = []netlinkTypes{
	{unix.NETLINK_ROUTE, "ROUTE", map[uint16]string{
		unix.RTM_NEWLINK: "RTM_NEWLINK", unix.RTM_DELLINK: "RTM_DELLINK", unix.RTM_GETLINK: "RTM_GETLINK", unix.RTM_SETLINK: "RTM_SETLINK",
		unix.RTM_NEWADDR: "RTM_NEWADDR", unix.RTM_DELADDR: "RTM_DELADDR", unix.RTM_GETADDR: "RTM_GETADDR",
		unix.RTM_NEWROUTE: "RTM_NEWROUTE", unix.RTM_DELROUTE: "RTM_DELROUTE", unix.RTM_GETROUTE: "RTM_GETROUTE",
		unix.RTM_NEWNEIGH: "RTM_NEWNEIGH", unix.RTM_DELNEIGH: "RTM_DELNEIGH", unix.RTM_GETNEIGH: "RTM_GETNEIGH",
		unix.RTM_NEWRULE: "RTM_NEWRULE", unix.RTM_DELRULE: "RTM_DELRULE", unix.RTM_GETRULE: "RTM_GETRULE",
		unix.RTM_NEWQDISC: "RTM_NEWQDISC", unix.RTM_DELQDISC: "RTM_DELQDISC", unix.RTM_NEWNSID: "RTM_NEWNSID", unix.RTM_GETNSID: "RTM_GETNSID",
	}},
	{unix.NETLINK_NETFILTER, "NETFILTER", netfilterTypes()},
	{unix.NETLINK_GENERIC, "GENERIC", nil},
	{unix.NETLINK_AUDIT, "AUDIT", nil},
	{unix.NETLINK_KOBJECT_UEVENT, "KOBJECT_UEVENT", nil},
	{unix.NETLINK_SOCK_DIAG, "SOCK_DIAG", nil},
	{unix.NETLINK_XFRM, "XFRM", nil},
}

// netfilterTypes joins subsystem and message: uapi/linux/netfilter/nfnetlink.h,
// nf_tables.h, nfnetlink_conntrack.h.
func netfilterTypes() map[uint16]string {
	m := map[uint16]string{0x10: "NFNL_MSG_BATCH_BEGIN", 0x11: "NFNL_MSG_BATCH_END"}
	subsystems := []struct {
		id     uint16
		prefix string
		names  []string
	}{
		{10, "NFT_MSG_", []string{"NEWTABLE", "GETTABLE", "DELTABLE", "NEWCHAIN", "GETCHAIN", "DELCHAIN", "NEWRULE", "GETRULE", "DELRULE",
			"NEWSET", "GETSET", "DELSET", "NEWSETELEM", "GETSETELEM", "DELSETELEM", "NEWGEN", "GETGEN", "TRACE", "NEWOBJ", "GETOBJ", "DELOBJ"}},
		{1, "IPCTNL_MSG_CT_", []string{"NEW", "GET", "DELETE", "GET_CTRZERO"}},
		{11, "NFNL_MSG_COMPAT_", []string{"GET"}},
	}
	for _, s := range subsystems {
		for i, n := range s.names {
			m[s.id<<8|uint16(i)] = s.prefix + n
		}
	}
	return m
}

// appendNetlink writes the types of the messages that were sent, joined by |:
// those that do something, or all when none does (a batch's begin and end
// frame what is inside).
func appendNetlink(buf []byte, protocol uint16, types []uint16) []byte {
	names := map[uint16]string(nil)
	for _, p := range netlinkProtocols {
		if p.protocol == protocol {
			names = p.types
		}
	}
	framed := len(types) > 1 && protocol == unix.NETLINK_NETFILTER
	n := len(buf)
	for _, t := range types {
		if framed && (t == 0x10 || t == 0x11) {
			continue
		}
		if len(buf) > n {
			buf = append(buf, '|')
		}
		if name, ok := names[t]; ok {
			buf = append(buf, name...)
		} else {
			buf = strconv.AppendUint(buf, uint64(t), 10)
		}
	}
	return buf
}

func appendNetlinkProtocol(buf []byte, protocol uint16) []byte {
	for _, p := range netlinkProtocols {
		if p.protocol == protocol {
			return append(append(buf, "netlink:"...), p.name...)
		}
	}
	return strconv.AppendUint(append(buf, "netlink:"...), uint64(protocol), 10)
}
