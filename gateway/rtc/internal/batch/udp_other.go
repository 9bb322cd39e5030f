//go:build !linux

package batch

import "net"

// UDP reads one packet at a time where there is no recvmmsg.
type UDP struct{ *net.UDPConn }

// New does not own conn.
func New(conn *net.UDPConn) (*UDP, error) { return &UDP{conn}, nil }
