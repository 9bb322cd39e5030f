// Package vad says how likely it is that somebody speaks in a piece of sound: the Silero net, computed on this machine from the
// weights that come with the program; it decides nothing.
package vad
