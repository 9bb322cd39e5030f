// Package edits has no code: its tests hold a chatctx.Log against agents that edit one conversation at the same time.
package edits
