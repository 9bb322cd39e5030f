package jetstream

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// brokers is a cluster of three nats-servers, in this process or one process each.
type brokers struct {
	t       testing.TB
	configs []string
	urls    []string
	servers []*server.Server // nil where it is down, or a process
	procs   []*exec.Cmd
}

// brokerConfig with this in its environment the test binary is a nats-server of that configuration.
const brokerConfig = "SIGHTLINE_TEST_BROKER"

// newBrokers writes the configurations of three servers, tagged as they should be.
func newBrokers(t testing.TB, tag string) *brokers { return newBrokersIn(t, t.TempDir(), tag) }

func newBrokersIn(t testing.TB, dir, tag string) *brokers {
	t.Helper()
	b := &brokers{t: t, servers: make([]*server.Server, 3), procs: make([]*exec.Cmd, 3)}
	ports, configs := freePorts(t, 6), t.TempDir() // a power cut would take them
	var routes []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3+i]))
	}
	for i := range 3 {
		config := filepath.Join(configs, fmt.Sprint("broker", i, ".conf"))
		text := fmt.Sprintf(`server_name: b%d
listen: 127.0.0.1:%d
max_payload: 4MB
server_tags: [%q]
jetstream { store_dir: %q, sync_interval: always, max_file: 8GB, max_mem: 64MB }
cluster { name: test, listen: 127.0.0.1:%d, routes: [%s] }
`, i, ports[i], tag, filepath.Join(dir, fmt.Sprint("b", i)), ports[3+i], strings.Join(routes, ", "))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.configs = append(b.configs, config)
		b.urls = append(b.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	t.Cleanup(func() {
		for i := range 3 {
			b.down(i)
		}
	})
	return b
}

// freePorts gives ports that nobody listened on a moment ago.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (b *brokers) url() string { return strings.Join(b.urls, ",") }

// up starts a server inside this process.
func (b *brokers) up(i int) {
	b.t.Helper()
	srv, err := startBroker(b.configs[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.servers[i] = srv
}

func startBroker(config string) (*server.Server, error) {
	o, err := server.ProcessConfigFile(config)
	if err != nil {
		return nil, err
	}
	o.NoSigs, o.NoLog = true, true
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	srv.Start()
	return srv, nil
}

// spawn starts a server as a process.
func (b *brokers) spawn(i int) {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerConfig+"="+b.configs[i])
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.procs[i] = cmd
}

func (b *brokers) signal(i int, sig syscall.Signal) {
	b.t.Helper()
	if err := b.procs[i].Process.Signal(sig); err != nil {
		b.t.Fatal(err)
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		_ = b.procs[i].Wait()
		b.procs[i] = nil
	}
}

func (b *brokers) down(i int) {
	if srv := b.servers[i]; srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		b.servers[i] = nil
	}
	if cmd := b.procs[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		b.procs[i] = nil
	}
}

// ready waits until the cluster has a leader that answers.
func (b *brokers) ready() *brokers {
	b.t.Helper()
	until(b.t, 30*time.Second, "the cluster to have a leader", func() bool {
		conn, err := nats.Connect(b.url(), nats.Timeout(time.Second))
		if err != nil {
			return false
		}
		defer conn.Close()
		answer, err := conn.Request("$JS.API.INFO", nil, time.Second)
		return err == nil && !bytes.Contains(answer.Data, []byte(`"error"`))
	})
	return b
}

// inProcess is three servers in this process.
func inProcess(t *testing.T) *brokers {
	b := newBrokers(t, syncTag)
	for i := range 3 {
		b.up(i)
	}
	return b.ready()
}

// processes is three servers in processes of their own.
func processes(t testing.TB) *brokers {
	b := newBrokers(t, syncTag)
	for i := range 3 {
		b.spawn(i)
	}
	return b.ready()
}

func (b *brokers) config() Config {
	return Config{External: External{URL: b.url(), Lease: 2 * time.Second}, MaxStoreBytes: 256 << 20, Partitions: 2}
}

func (b *brokers) open() *Store {
	b.t.Helper()
	return openCluster(b.t, b.config())
}

func openCluster(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// empty deletes all that the store has, so that one cluster serves every part of a suite.
func empty(t *testing.T, s *Store) {
	t.Helper()
	for _, stream := range s.engine.streams() {
		r, _, err := s.engine.writer(t.Context())
		if err == nil {
			err = r.api(t.Context(), "STREAM.PURGE."+stream, struct{}{}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// beBroker is a nats-server until it is told to stop.
func beBroker(config string) {
	srv, err := startBroker(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	srv.Shutdown()
	srv.WaitForShutdown()
	os.Exit(0)
}
