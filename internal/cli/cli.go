// Package cli is the command line: one struct and one file per command, whose
// tags are the usage text.
//
// The invariant it keeps: no command opens a live store. What concerns one is
// asked of the running daemon over its control socket, and nothing that a sensor,
// a stranger's message or a tank's name can hold reaches the terminal as a
// control character.
//
// It does not wire a daemon together (package daemon), and it does not exit the
// process: Run gives the code, main exits with it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"periph.io/x/conn/v3/i2c"

	"oxyd/internal/config"
)

// The exit codes (contract section 8).
const (
	ExitDone   = 0
	ExitFailed = 1 // it failed, or a check does not hold
	ExitUsage  = 2 // the command line makes no sense
)

const about = `oxyd keeps the oxygen account of a base: it reads tank sensors, publishes what they measure over MQTT, and keeps a balance per tank that repeats, late messages and power cuts do not falsify.

Commands that need a live store ask the running daemon over {data_dir}/oxyd.sock. Exit codes: 0 done, 1 failed, 2 wrong usage.`

// commands is the whole command line.
type commands struct {
	Run        runCmd        `cmd:"" help:"Run the daemon in the foreground until it is told to stop."`
	Check      checkCmd      `cmd:"" help:"Say everything that is wrong with a config, and answer the six questions of an idempotent consumer."`
	Tanks      tanksCmd      `cmd:"" help:"List the tanks with their balances."`
	Journal    journalCmd    `cmd:"" help:"Print what the account has received, and what became of it."`
	Sources    sourcesCmd    `cmd:"" help:"List who has sent events, and what of them is missing."`
	Quarantine quarantineCmd `cmd:"" help:"Look at messages that were refused and kept, and decide about them."`
	Webhook    webhookCmd    `cmd:"" help:"Look at what the webhook's receiver is told."`
	Sensors    sensorsCmd    `cmd:"" help:"Look at buses, chips and channels, and calibrate them; with or without a daemon."`
	Record     recordCmd     `cmd:"" help:"Book an event by hand."`
	Backup     backupCmd     `cmd:"" help:"Copy the account of the running daemon into a file, and verify the copy."`
	Verify     verifyCmd     `cmd:"" help:"Verify an account file that no daemon holds: recompute everything from its journal."`
	Demo       demoCmd       `cmd:"" help:"Show what repeats, disorder and a crash do to five consumers, this account among them."`
	Version    versionCmd    `cmd:"" help:"Tell the version of this program."`

	DemoConsumer demoConsumerCmd `cmd:"" hidden:"" help:"Be one consumer of a demonstration."`
	CheckStore   checkStoreCmd   `cmd:"" hidden:"" help:"Look through a store that no process holds, for the process that started this one."`
}

// terminal is what a command may touch of the world.
type terminal struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	openBus        func(name string) (i2c.BusCloser, error) // nil: the kernel's
}

// Run does what args ask for, without the program's name in them, and gives the
// exit code. It ends early when ctx does. Of the commands that a person types sensors calibrate alone reads its input.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &terminal{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	helped := false
	parser, err := kong.New(&commands{}, kong.Name("oxyd"), kong.Description(about),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		s.complain(err)
		return ExitFailed
	}
	command, err := parser.Parse(args)
	switch {
	case helped: // the help is out, and what else the arguments lack does not matter
		return ExitDone
	case err != nil:
		s.complain(&hinted{err, "see: " + commandOf(err) + " --help"})
		return ExitUsage
	}
	if err := command.Run(s); err != nil {
		s.complain(err)
		return ExitFailed
	}
	return ExitDone
}

// commandOf gives the command that a usage error is about, as far as it got.
func commandOf(err error) string {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || parse.Context == nil || parse.Context.Selected() == nil {
		return "oxyd"
	}
	return parse.Context.Selected().FullPath()
}

// complain writes an error to stderr, every fault of a config on a line of its
// own, and the hint that it carries.
func (s *terminal) complain(err error) {
	lines := strings.Split(err.Error(), "\n") // joined errors are apart
	if faults, ok := errors.AsType[config.Faults](err); ok {
		lines = lines[:0]
		for _, f := range faults {
			lines = append(lines, f.String())
		}
	}
	for _, line := range lines {
		fmt.Fprintf(s.stderr, "oxyd: error: %s\n", printable(line))
	}
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		fmt.Fprintf(s.stderr, "oxyd: hint: %s\n", printable(h.Hint()))
	}
}

// hinted is an error with advice.
type hinted struct {
	error
	hint string
}

func (h *hinted) Hint() string  { return h.hint }
func (h *hinted) Unwrap() error { return h.error }

// configFlag names the config; every command that needs one embeds it.
type configFlag struct {
	Config string `short:"c" placeholder:"FILE" help:"Config file. Default: ./config.yaml, then /etc/oxyd/config.yaml."`
}

// load finds and reads the config.
func (f *configFlag) load() (cfg *config.Config, path string, err error) {
	if path, err = config.Find(f.Config); err != nil {
		return nil, "", err
	}
	cfg, err = config.Load(path)
	return cfg, path, err
}
