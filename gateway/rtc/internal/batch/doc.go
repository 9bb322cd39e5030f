// Package batch reads a UDP socket many packets at a time, as ice's mux wants it read: one packet a call. It knows nothing of what is in them.
package batch
