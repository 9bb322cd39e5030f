// Package house holds no code, only the tests that keep the house in order: who may import whom and why, one sentence per package, documented names, files of readable length, a Dockerfile that calls scripts that exist.
package house
