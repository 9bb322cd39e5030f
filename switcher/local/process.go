package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"sightline/switcher/cascade"
)

// process is a running program, the leader of a process group, so that its children go with it.
type process struct {
	in   *os.File // its standard input; writes have deadlines
	out  *os.File // its standard output
	done chan struct{}
	pid  int

	// After done.
	err  error
	said string // the beginning of its standard error
}

// launch starts a program. extra are files that it has from descriptor 3 on; they stay the caller's.
func launch(program string, args []string, extra ...*os.File) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		in.Close()
		return nil, err
	}
	complaint := &limited{most: 2 << 10}
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = childIn, childOut, complaint, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second                          // a child of it may hold its standard error
	cmd.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1") // tesseract's threads cost more than they bring on small images
	err = cmd.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	p := &process{in: in, out: out, done: make(chan struct{}), pid: cmd.Process.Pid}
	go p.wait(cmd, complaint)
	return p, nil
}

func (p *process) wait(cmd *exec.Cmd, complaint *limited) {
	p.err = cmd.Wait()
	p.kill() // children that outlived it
	p.said = strings.TrimSpace(complaint.String())
	close(p.done)
}

// kill ends the whole group; what is left of it has nothing more to say.
func (p *process) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end kills the process if it still runs, waits for it and closes its files.
func (p *process) end() {
	if p.alive() {
		p.kill()
	}
	<-p.done
	p.in.Close()
	p.out.Close()
}

// run starts a program, gives it input, and takes at most most bytes of its output. It is killed after timeout, or with ctx.
func run(ctx context.Context, timeout time.Duration, most int64, input []byte, program string, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := launch(program, args)
	if err != nil {
		return nil, unreachable(program, err)
	}
	defer p.end()
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(limit, func() {
		p.kill()
		_ = p.out.SetReadDeadline(time.Now()) // whoever left the group may hold the other end
		_ = p.in.SetWriteDeadline(time.Now())
	})()

	var feeding sync.WaitGroup
	feeding.Go(func() {
		_, _ = p.in.Write(input) // a program that does not want all of it may say so by its answer
		p.in.Close()
	})
	out, readErr := io.ReadAll(io.LimitReader(p.out, most+1))
	if int64(len(out)) > most {
		p.kill()
	}
	feeding.Wait()
	if readErr == nil {
		select { // its output has ended, so it is about to
		case <-p.done:
		case <-limit.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limit.Err() != nil:
		return nil, &cascade.EngineError{Code: "timeout", Message: fmt.Sprintf("%s gave no answer within %s", program, timeout), Retryable: true}
	case int64(len(out)) > most:
		return nil, &cascade.EngineError{Code: "invalid", Message: fmt.Sprintf("%s gave more than %d bytes", program, most)}
	case readErr != nil:
		return nil, unreachable(program, readErr)
	case p.err != nil:
		return nil, died(program, p)
	}
	return out, nil
}

func unreachable(program string, err error) error {
	message := program + " does not start"
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &cascade.EngineError{Code: "unreachable", Message: message + ": it is not installed", Err: err}
	}
	return &cascade.EngineError{Code: "unreachable", Message: message, Retryable: true, Err: err}
}

func died(program string, p *process) error {
	message := program + " died"
	if p.said != "" {
		line, _, _ := strings.Cut(p.said, "\n")
		message += ", saying " + fmt.Sprintf("%.200q", line)
	}
	return &cascade.EngineError{Code: "unreachable", Message: message, Retryable: true, Err: p.err}
}

// limited keeps the first bytes that are written to it and takes the rest for nothing.
type limited struct {
	most int
	strings.Builder
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.most - l.Len(); room > 0 {
		l.Builder.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
