package gateway

// The attribute keys of this package's log lines.
const (
	keySession = "session"
	keyAgent   = "agent"
	keyReason  = "reason"
	keyError   = "error"
	keySource  = "source"
	keyRequest = "request_id"
)
