package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	chatctx "sightline/context"
	"sightline/context/jetstream"
	"sightline/context/logfile"
)

// logTool is `sightline log`: it works on the data directory of a gateway that is not running, or on a cluster.
type logTool struct {
	args           []string
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
}

const logUsage = `usage: sightline log COMMAND [--data-dir DIR | --nats-url ADDRESSES] ...

  verify [SESSION...]   read conversations with their images and say where they are not sound; all of them when none is named
  export [SESSION...]   write conversations as JSON Lines to standard output, or to --out FILE
  import FILE|-         store the conversations of such a file; those that are there already are compared and left as they are

The gateway must not be running on the directory; with --nats-url it works on a cluster, beside its gateways. A SESSION is named by its id, or by the key of its log.
`

func (p program) log(args []string) int {
	return logTool{args: args, getenv: p.getenv, stdin: os.Stdin, stdout: p.stdout, stderr: p.stderr}.run()
}

func (t logTool) run() int {
	commands := map[string]func(context.Context, *jetstream.Store, []string, string) error{"verify": t.verify, "export": t.export, "import": t.importFile}
	if len(t.args) == 0 {
		fmt.Fprint(t.stderr, logUsage)
		return exitUsage
	}
	name := t.args[0]
	if name == "help" || name == "--help" || name == "-h" {
		fmt.Fprint(t.stdout, logUsage)
		return exitOK
	}
	command := commands[name]
	if command == nil {
		fmt.Fprintf(t.stderr, "sightline log: unknown command %q\n\n%s", name, logUsage)
		return exitUsage
	}
	err := t.withStore(name, command)
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errTold):
		return exitFail
	case errors.As(err, &wrong):
		fmt.Fprintf(t.stderr, "sightline log %s: %v\n", name, err)
		return exitUsage
	}
	fmt.Fprintf(t.stderr, "sightline log %s: %v\n", name, err)
	return exitFail
}

func (t logTool) withStore(name string, command func(context.Context, *jetstream.Store, []string, string) error) (err error) {
	flags := flag.NewFlagSet("sightline log "+name, flag.ContinueOnError)
	flags.SetOutput(t.stdout)
	home, noHome := stateDir(t.getenv)
	dir := flags.String("data-dir", cmp.Or(t.getenv("SIGHTLINE_DATA_DIR"), home), "`folder` of the conversations")
	var cluster natsSettings
	cluster.flags(flags)
	var out string
	if name == "export" {
		flags.StringVar(&out, "out", "-", "`file` to write, - = standard output")
	}
	flags.Usage = func() {
		fmt.Fprint(t.stdout, logUsage, "\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(t.args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if name == "import" && flags.NArg() != 1 {
		return misuse("name one file, or - for standard input")
	}
	var bound int64 // of a store that is made; one that is there is never made smaller, and a tool does not make it larger
	switch {
	case cluster.url != "":
		*dir = ""
	case *dir == "":
		return usageError{noHome}
	default:
		if _, err := os.Stat(*dir); err != nil && name != "import" {
			return misuse("%s: there are no conversations: --data-dir names the folder of the gateway's", *dir)
		}
		if _, err := os.Stat(filepath.Join(*dir, "jetstream")); err == nil {
			bound = jetstream.MinStoreBytes
		}
	}
	if err := cluster.check(*dir); err != nil {
		return usageError{err}
	}
	store, err := jetstream.Open(context.Background(), jetstream.Config{
		Dir: *dir, External: cluster.external(), UnsafeSync: cluster.unsafeSync, MaxStoreBytes: bound, MaxAge: 100 * 365 * 24 * time.Hour, // a tool deletes nothing because of its age
		Log: slog.New(slog.NewTextHandler(t.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return command(context.Background(), store, flags.Args(), out)
}

// conversation is a log and, when the directory has one, the record of its session.
type conversation struct {
	key    string
	record *chatctx.SessionRecord
}

func (c conversation) String() string {
	if c.record == nil {
		return "log " + c.key
	}
	return "session " + c.record.ID
}

// conversations finds those that are named, all when none is. With an error of kind LogDamaged it gives what can be found.
func conversations(ctx context.Context, store *jetstream.Store, names []string) ([]conversation, error) {
	keys, err := store.Logs(ctx)
	if err != nil {
		return nil, err
	}
	records, spoiled := store.Sessions(ctx)
	if e := (*chatctx.Error)(nil); spoiled != nil && (!errors.As(spoiled, &e) || e.Kind != chatctx.LogDamaged) {
		return nil, spoiled
	}
	var all []conversation
	recorded := map[string]bool{}
	for i := range records {
		all = append(all, conversation{records[i].Key, &records[i]})
		recorded[records[i].Key] = true
	}
	for _, key := range keys {
		if !recorded[key] {
			all = append(all, conversation{key, nil})
		}
	}
	if len(names) == 0 {
		return all, spoiled
	}
	var chosen []conversation
	for _, name := range names {
		i := slices.IndexFunc(all, func(c conversation) bool { return c.record != nil && c.record.ID == name })
		if i < 0 {
			i = slices.IndexFunc(all, func(c conversation) bool { return c.key == name })
		}
		if i < 0 {
			return nil, fmt.Errorf("there is no session and no log %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (t logTool) verify(ctx context.Context, store *jetstream.Store, names []string, _ string) error {
	list, err := conversations(ctx, store, names)
	bad := 0
	switch {
	case err != nil && list == nil:
		return err
	case err != nil:
		bad++
		fmt.Fprintf(t.stdout, "the directory of sessions: damaged: %v\n", err)
	}
	for _, c := range list {
		n, err := logfile.Verify(ctx, store, c.key)
		if err != nil {
			bad++
			fmt.Fprintf(t.stdout, "%s: damaged: %v\n", c, err)
			continue
		}
		fmt.Fprintf(t.stdout, "%s: %d entries, %d images, sound\n", c, n.Entries, n.Images)
	}
	fmt.Fprintf(t.stdout, "%d conversations, %d damaged\n", len(list), bad)
	if bad > 0 {
		return errTold
	}
	return nil
}

func (t logTool) export(ctx context.Context, store *jetstream.Store, names []string, out string) (err error) {
	list, err := conversations(ctx, store, names)
	if err != nil {
		return err
	}
	to := t.stdout
	if out != "-" {
		f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // what people said is nobody else's to read
		if err != nil {
			return usageError{err}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	w := bufio.NewWriter(to)
	defer func() { err = errors.Join(err, w.Flush()) }()
	for _, c := range list {
		n, err := logfile.Export(ctx, w, store, c.key, c.record)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		fmt.Fprintf(t.stderr, "%s: %d entries, %d images\n", c, n.Entries, n.Images)
	}
	return nil
}

func (t logTool) importFile(ctx context.Context, store *jetstream.Store, names []string, _ string) error {
	from := t.stdin
	if names[0] != "-" {
		f, err := os.Open(names[0])
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		from = f
	}
	return logfile.Import(ctx, from, store, store, func(key string, n logfile.Count) {
		fmt.Fprintf(t.stdout, "log %s: %d entries, %d of them new, %d images\n", key, n.Entries, n.New, n.Images)
	})
}
