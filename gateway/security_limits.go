package gateway

import (
	"cmp"
	"container/list"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are rates and quotas of who asks, on any address but loopback, and wherever tokens are asked for. 0 is the default, below 0
// there is no limit. In a cluster each node counts what comes to it.
type Limits struct {
	AddressRate   int // requests a second from one address (IPv6: /64), with twice that as burst; the page's files do not count
	TokenRate     int // requests a second with one token, with twice that as burst
	TokenSockets  int // open with one token
	TokenSessions int // live that were begun with one token
}

// Defaults of Limits.
const (
	DefaultAddressRate   = 50
	DefaultTokenRate     = 50
	DefaultTokenSockets  = 64
	DefaultTokenSessions = 100
)

// maxCounted is how many addresses, and how many tokens, have a rate of their own; of those beyond, the longest unseen begin anew.
const maxCounted = 16 << 10

// limits are the tables behind Limits.
type limits struct {
	trusted           []netip.Prefix
	addresses, tokens *rates
	sockets, sessions *quota
}

func newLimits(l Limits, trusted []netip.Prefix) *limits {
	return &limits{
		trusted:   trusted,
		addresses: newRates(cmp.Or(l.AddressRate, DefaultAddressRate)), tokens: newRates(cmp.Or(l.TokenRate, DefaultTokenRate)),
		sockets: newQuota(cmp.Or(l.TokenSockets, DefaultTokenSockets)), sessions: newQuota(cmp.Or(l.TokenSessions, DefaultTokenSessions)),
	}
}

// limited: who is alone on the machine needs no limits.
func (s *Server) limited() bool { return s.cfg.Auth != nil || !IsLoopback(s.cfg.Listen) }

// address names who a request comes from, as far as proxies that are trusted tell it.
func (l *limits) address(r *http.Request) string {
	from := peerOf(r)
	if l.trusts(from) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) { // the last is what our own proxy has seen
			a, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break
			}
			from = a.Unmap().WithZone("")
			if !l.trusts(from) {
				break
			}
		}
	}
	if from.Is6() {
		p, _ := from.Prefix(64) // one household or machine has as many as it likes
		return p.String()
	}
	return from.String()
}

// peerOf is the address at the other end of the connection; invalid when that is no IP address, as of another node.
func peerOf(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap().WithZone("")
}

func (l *limits) trusts(a netip.Addr) bool {
	return a.IsValid() && slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// https says whether the client speaks TLS: with us, or with a proxy or node that we believe it of.
func (l *limits) https(r *http.Request) bool {
	peer := peerOf(r)
	return r.TLS != nil || (l.trusts(peer) || !peer.IsValid()) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// rates is a table of rate limits, the least recently used of which are forgotten.
type rates struct {
	perSecond int // < 1: none

	mu    sync.Mutex
	order *list.List // of *counted, the latest first
	known map[string]*list.Element
}

type counted struct {
	key     string
	limiter *rate.Limiter
}

func newRates(perSecond int) *rates {
	return &rates{perSecond: perSecond, order: list.New(), known: map[string]*list.Element{}}
}

// wait counts one in at now: 0, or how long it has to wait, and then it was not counted.
func (t *rates) wait(key string, now time.Time) time.Duration {
	if t.perSecond < 1 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.known[key]
	if e == nil {
		if t.order.Len() >= maxCounted {
			oldest := t.order.Back()
			delete(t.known, t.order.Remove(oldest).(*counted).key)
		}
		e = t.order.PushFront(&counted{key, rate.NewLimiter(rate.Limit(t.perSecond), 2*t.perSecond)})
		t.known[key] = e
	}
	t.order.MoveToFront(e)
	reserved := e.Value.(*counted).limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// quota counts what is held by each of many; it holds no entry for who holds nothing.
type quota struct {
	max int // < 1: none

	mu   sync.Mutex
	held map[string]int
}

func newQuota(n int) *quota { return &quota{max: n, held: map[string]int{}} }

// take counts one in, unless that is one too many; release gives it back.
func (q *quota) take(key string) (release func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.max > 0 && q.held[key] >= q.max {
		return nil, false
	}
	q.held[key]++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.held[key]--; q.held[key] <= 0 {
			delete(q.held, key)
		}
	}), true
}
