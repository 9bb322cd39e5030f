//go:build race

package main

// thousandSessions is fewer under the race detector, where a DTLS handshake of the test's own side takes tenths of a second;
// scripts/bench opens and closes the thousand.
const thousandSessions = 300
