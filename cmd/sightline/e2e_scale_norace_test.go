//go:build !race

package main

const thousandSessions = 1000
