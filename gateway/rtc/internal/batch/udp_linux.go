package batch

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	packets     = 64   // read at once
	packetBytes = 2048 // of one packet; longer ones are none of ours and thrown away
	// pause is the least time from one read of a socket to the next. Whoever reads sooner wakes all goroutines between the socket and
	// the track for each single packet, and these wake-ups are most of what a packet costs.
	pause = time.Millisecond
)

// UDP reads a socket many packets at a time (recvmmsg(2)). One goroutine uses it.
type UDP struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // one for all reads: a closure for each would be an allocation

	next, have int
	err        error
	last       time.Time // of the latest read
	messages   [packets]mmsghdr
	vectors    [packets]syscall.Iovec
	names      [packets]syscall.RawSockaddrInet6 // room for IPv4 too
	data       []byte
}

// mmsghdr is the kernel's struct of that name.
type mmsghdr struct {
	header syscall.Msghdr
	length uint32
}

// New does not own conn: whoever closes it ends the reading.
func New(conn *net.UDPConn) (*UDP, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	u := &UDP{raw: raw, data: make([]byte, packets*packetBytes)}
	u.try = u.recv
	for i := range u.messages {
		u.vectors[i].Base = &u.data[i*packetBytes]
		u.vectors[i].SetLen(packetBytes)
		h := &u.messages[i].header
		h.Name, h.Iov, h.Iovlen = (*byte)(unsafe.Pointer(&u.names[i])), &u.vectors[i], 1
	}
	return u, nil
}

// ReadFromUDPAddrPort is as net.UDPConn's.
func (u *UDP) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	for {
		for u.next < u.have {
			i := u.next
			u.next++
			from, ok := addressOf(&u.names[i])
			if m := &u.messages[i]; ok && m.header.Flags&syscall.MSG_TRUNC == 0 {
				return copy(b, u.data[i*packetBytes:][:m.length]), from, nil
			}
		}
		if wait := pause - time.Since(u.last); wait > 0 {
			time.Sleep(wait)
		}
		u.next, u.have, u.err = 0, 0, nil
		err := u.raw.Read(u.try)
		u.last = time.Now()
		if err == nil {
			err = u.err
		}
		if err != nil {
			return 0, netip.AddrPort{}, err
		}
	}
}

// recv takes what is there; false: nothing is, wait.
func (u *UDP) recv(fd uintptr) bool {
	for i := range u.messages {
		u.messages[i].header.Namelen = syscall.SizeofSockaddrInet6
	}
	for {
		n, _, errno := syscall.Syscall6(syscall.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&u.messages[0])), packets, syscall.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			u.have = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			u.err = errno
			return true
		}
	}
}

// addressOf reads a socket address (ip(7), ipv6(7)).
func addressOf(name *syscall.RawSockaddrInet6) (netip.AddrPort, bool) {
	b := (*[syscall.SizeofSockaddrInet6]byte)(unsafe.Pointer(name))
	port := binary.BigEndian.Uint16(b[2:4])
	switch name.Family {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), true
	case syscall.AF_INET6:
		a := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if name.Scope_id != 0 && a.Is6() {
			a = a.WithZone(strconv.Itoa(int(name.Scope_id)))
		}
		return netip.AddrPortFrom(a, port), true
	}
	return netip.AddrPort{}, false
}
