//go:build !linux

package rtc

import "net"

// batchUDP reads one packet at a time where there is no recvmmsg.
type batchUDP struct{ *net.UDPConn }

func newBatchUDP(conn *net.UDPConn) (*batchUDP, error) { return &batchUDP{conn}, nil }
