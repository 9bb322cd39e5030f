package jetstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// writers append to some sessions of a cluster from this process, one entry after the other, and note what was acknowledged.
type writers struct {
	t     testing.TB
	store *Store
	stop  chan struct{}
	done  sync.WaitGroup

	mu      sync.Mutex
	acked   map[string]uint64
	last    time.Time     // of an acknowledgement of any session
	longest time.Duration // without one
	refused int
}

const writtenSessions = 6

// write begins, on sessions whose names begin so; end waits for the last answers and checks all that is there.
func (b *brokers) write(s *Store, prefix string) *writers {
	w := &writers{t: b.t, store: s, stop: make(chan struct{}), acked: map[string]uint64{}, last: time.Now()}
	for i := range writtenSessions {
		w.done.Go(func() { w.talk(fmt.Sprint(prefix, i)) })
	}
	return w
}

func (w *writers) talk(name string) {
	log, err := chatctx.OpenLog(context.Background(), chatctx.LogConfig{Store: w.store, Session: name})
	if err != nil {
		w.t.Errorf("%s: %v", name, err)
		return
	}
	for k := 1; ; {
		select {
		case <-w.stop:
			return
		default:
		}
		ack, err := log.Append(context.Background(), chatctx.Origin{Author: "caller", At: time.Now()}, chatctx.Op{
			ID: "op-" + strconv.Itoa(k), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("word")},
		})
		w.mu.Lock()
		now := time.Now()
		switch {
		case err != nil && !isUnavailable(err):
			w.t.Errorf("%s: op-%d: %v", name, k, err)
		case err != nil: // the same again
			w.refused++
		case ack.Seq != uint64(k):
			w.t.Errorf("%s: op-%d was acknowledged as entry %d", name, k, ack.Seq)
		default:
			w.acked[name] = ack.Seq
			w.longest, w.last = max(w.longest, now.Sub(w.last)), now
			k++
		}
		w.mu.Unlock()
		time.Sleep(time.Millisecond) // a pace that leaves the machine some room
	}
}

func (w *writers) count() (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seq := range w.acked {
		n += seq
	}
	return n
}

// flowing waits until some more has been acknowledged.
func (w *writers) flowing() {
	w.t.Helper()
	from := w.count()
	until(w.t, 60*time.Second, "appends to be acknowledged again", func() bool { return w.count() > from+20 })
}

// end checks, through a store that has seen nothing of it, that what was acknowledged is there once, without a hole.
func (w *writers) end(b *brokers, what string) {
	w.t.Helper()
	close(w.stop)
	w.done.Wait()
	s := b.open()
	total := uint64(0)
	for name, acked := range w.acked {
		if _, err := s.Head(w.t.Context(), name); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
		all, err := readAll(w.t, s, name)
		if err != nil || uint64(len(all)) < acked || uint64(len(all)) > acked+1 {
			w.t.Errorf("%s: %d entries, %v; %d were acknowledged", name, len(all), err, acked)
		}
		for k, e := range all {
			if e.Seq != uint64(k+1) || e.OpID != "op-"+strconv.Itoa(k+1) {
				w.t.Errorf("%s: entry %d is seq %d, %s", name, k+1, e.Seq, e.OpID)
			}
		}
		total += acked
	}
	st := w.store.Stats()
	w.t.Logf("%s: %d acknowledged, 0 lost, 0 twice, 0 holes; longest time without an acknowledgement %v; %d refused; retries %+v",
		what, total, w.longest.Round(time.Millisecond), w.refused, st.Retries)
}

// leader is the server that leads a stream, -1 when none does.
func (b *brokers) leader(stream string) int {
	b.t.Helper()
	conn, err := nats.Connect(b.url(), nats.Timeout(time.Second))
	if err != nil {
		return -1
	}
	defer conn.Close()
	answer, err := conn.Request("$JS.API.STREAM.INFO."+stream, nil, time.Second)
	if err != nil {
		return -1
	}
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if json.Unmarshal(answer.Data, &info) != nil || info.Cluster.Leader == "" {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(info.Cluster.Leader, "b"))
	if err != nil {
		return -1
	}
	return n
}

// led waits for a stream to have a leader.
func (b *brokers) led(stream string) (i int) {
	b.t.Helper()
	until(b.t, 30*time.Second, stream+" to have a leader", func() bool { i = b.leader(stream); return i >= 0 })
	return i
}

// current waits until every replica of every stream has what the leader has.
func (b *brokers) current(s *Store) {
	b.t.Helper()
	until(b.t, 60*time.Second, "every replica to be current", func() bool {
		r, err := s.engine.reader(b.t.Context())
		if err != nil {
			return false
		}
		for _, stream := range s.engine.streams() {
			var info struct {
				Cluster struct {
					Leader   string
					Replicas []struct {
						Current bool `json:"current"`
						Offline bool `json:"offline"`
					} `json:"replicas"`
				} `json:"cluster"`
			}
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
			err := r.api(ctx, "STREAM.INFO."+stream, struct{}{}, &info)
			cancel()
			if err != nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
				return false
			}
			for _, replica := range info.Cluster.Replicas {
				if !replica.Current || replica.Offline {
					return false
				}
			}
		}
		return true
	})
}

// long says whether the slow half of the tests of faults was asked for.
func long() bool { return os.Getenv("SIGHTLINE_FAULTS") != "" }

// TestG2LeaderLost: the server that leads a stream is killed, or told to give the lead away, under six writers.
func TestG2LeaderLost(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := processes(t)
	s := b.open()
	w := b.write(s, "w")
	w.flowing()
	rounds := 1
	if long() {
		rounds = 5
	}
	for range rounds {
		i := b.led(contextStream(0))
		b.signal(i, syscall.SIGKILL)
		w.flowing()
		b.spawn(i)
		b.current(s)
	}
	w.end(b, fmt.Sprintf("%d leaders killed", rounds))

	calm := b.open()
	for _, stream := range calm.engine.streams() {
		b.led(stream)
	}
	w = b.write(calm, "x")
	w.flowing()
	for range 2 * rounds {
		r, err := calm.engine.reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for p := range calm.partitions {
			_ = r.api(t.Context(), "STREAM.LEADER.STEPDOWN."+contextStream(p), struct{}{}, nil)
		}
		w.flowing()
	}
	w.end(b, fmt.Sprintf("%d times stepped down", 2*rounds))
}

// TestG2QuorumLost: with two of three servers gone, appends are refused within their deadline and reading goes on; when one comes
// back, so do appends.
func TestG2QuorumLost(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := processes(t)
	cfg := b.config()
	cfg.Timeout = 2 * time.Second
	s := openCluster(t, cfg)
	appendN(t, s, "a", 1, 50)
	sum := sumOf([]byte("x"))
	if err := s.PutBlob(t.Context(), "a", sum, chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReplaceSession(t.Context(), Owned{SessionRecord: chatctx.SessionRecord{ID: "s", Key: "a"}, Node: "n"}); err != nil {
		t.Fatal(err)
	}
	b.current(s)
	fresh := openCluster(t, cfg) // it knows nothing from memory
	b.signal(1, syscall.SIGKILL)
	b.signal(2, syscall.SIGKILL)
	until(t, 20*time.Second, "Health to say so", func() bool { return s.Health() != nil })
	for range 2 {
		at := time.Now()
		err := s.Append(t.Context(), "a", entry(51, "no quorum"))
		if took := time.Since(at); !isUnavailable(err) || took > cfg.Timeout+time.Second {
			t.Errorf("Append without a quorum: %v after %v, want unavailable within %v", err, took, cfg.Timeout)
		}
	}
	until(t, 10*time.Second, "reading from the survivor", func() bool {
		all, err := fresh.Read(t.Context(), "a", 0, 100)
		return err == nil && len(all) == 50
	})
	if blob, err := fresh.GetBlob(t.Context(), "a", sum); err != nil || string(blob.Data) != "x" {
		t.Errorf("the image: %v", err)
	}
	if o, err := fresh.FindSession(t.Context(), "s"); err != nil || o.Node != "n" {
		t.Errorf("whose the session is: %+v, %v", o, err)
	}
	b.spawn(1)
	at := time.Now()
	until(t, 60*time.Second, "appends after the quorum is back", func() bool {
		head, err := s.Head(t.Context(), "a")
		return err == nil && s.Append(t.Context(), "a", entry(head+1, "quorum")) == nil
	})
	t.Logf("appends %v after the second server was started again", time.Since(at).Round(time.Millisecond))
	until(t, 10*time.Second, "Health", func() bool { return s.Health() == nil })
}

// TestG2RollingRestart: every server (without SIGHTLINE_FAULTS only one) is stopped and started again, one after the other, as for
// an upgrade.
func TestG2RollingRestart(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := processes(t)
	s := b.open()
	w := b.write(s, "w")
	w.flowing()
	n := 1
	if long() {
		n = 3
	}
	for i := range n {
		b.signal(i, syscall.SIGTERM)
		w.flowing()
		b.spawn(i)
		b.current(s)
		w.flowing()
	}
	w.end(b, fmt.Sprintf("%d servers restarted in turn", n))
}

// ownerURL, with this in its environment the test binary owns a session of that cluster and writes to it until it is killed.
const ownerURL = "SIGHTLINE_TEST_OWNER"

// beOwner claims the session "owned" under term 1 and says "ack seq" of each entry, and "fenced" when it is refused.
func beOwner(url string) {
	s, err := Open(context.Background(), Config{External: External{URL: url}, MaxStoreBytes: 256 << 20, Partitions: 2})
	if err == nil {
		err = s.Fence(context.Background(), "owned", 1)
	}
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for seq := uint64(1); ; {
		err := s.Append(context.Background(), "owned", entry(seq, "from the old owner"))
		switch {
		case isFenced(err):
			fmt.Println("fenced", seq)
			os.Exit(0)
		case err == nil:
			fmt.Println("ack", seq)
			seq++
		default:
			fmt.Println("error", err)
		}
	}
}

// TestG2SleepingOwner: the process that owns a session is stopped (SIGSTOP), another takes the session over, the first wakes up
// (SIGCONT) in the middle of its work: it is refused, and the log has no entry of its after the fence.
func TestG2SleepingOwner(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := inProcess(t)
	s := b.open()
	rounds := 1
	if long() {
		rounds = 10
	}
	for round := range rounds {
		empty(t, s)
		s.forgetLog("owned")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), ownerURL+"="+b.url())
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		acked := uint64(0)
		next := func() string {
			if !lines.Scan() {
				t.Fatalf("the owner ended: %v", cmd.Wait())
			}
			_, _ = fmt.Sscanf(lines.Text(), "ack %d", &acked)
			return lines.Text()
		}
		for acked < 20 {
			next()
		}
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		term := uint64(2)
		if err := s.Fence(t.Context(), "owned", term); err != nil {
			t.Fatal(err)
		}
		from, err := s.Head(t.Context(), "owned")
		if err != nil {
			t.Fatal(err)
		}
		appendN(t, s, "owned", from+1, from+10)
		_ = cmd.Process.Signal(syscall.SIGCONT)
		for line := ""; !strings.HasPrefix(line, "fenced"); {
			line = next()
			if strings.HasPrefix(line, "error") {
				t.Errorf("the old owner says %q", line)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		all, err := readAll(t, s, "owned")
		if err != nil || uint64(len(all)) != from+10 || acked > from {
			t.Fatalf("round %d: %d entries, %v; want %d; the old owner had %d acknowledged", round, len(all), err, from+10, acked)
		}
		for _, e := range all {
			old := e.Item.(*chatctx.Message).Content.Text() == "from the old owner"
			if old != (e.Seq <= from) {
				t.Errorf("entry %d: from the old owner: %v; the fence is behind entry %d", e.Seq, old, from)
			}
		}
	}
	t.Logf("%d times asleep past the take-over: refused each time, nothing written twice", rounds)
}
