package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"oxyd/internal/demo"
)

type demoCmd struct {
	JSON bool `help:"Print the outcome as one JSON document."`
}

// Help is the long text of `oxyd demo --help`.
func (demoCmd) Help() string {
	return "One stream of events with repeats, a late reading and a crash goes into five consumers, each a process of its own: a naive one, effect and mark in two transactions in either order, and the account that oxyd keeps, with a delta and with a level. The broker is the embedded one on a free port of 127.0.0.1, the crash is SIGKILL, the repeats after it are the broker's. It needs no config, touches no running daemon and leaves nothing behind. Exit code 0 only if each consumer did what is expected of it, the broken ones included."
}

// Run plays the demonstration and prints it.
func (c *demoCmd) Run(s *terminal) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	result, err := demo.Run(s.ctx, demo.Options{Consumer: []string{program, "demo-consumer"}})
	switch {
	case err != nil && s.ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("the demonstration was not played to its end: %w", err)
	case !c.JSON:
		err = demo.Print(s.stdout, &result)
	default:
		err = json.NewEncoder(s.stdout).Encode(result)
	}
	if err != nil {
		return err
	}
	return result.Err()
}

// demoConsumerCmd is what demoCmd starts in processes of their own.
type demoConsumerCmd struct {
	Assignment string `arg:""`
}

// Run is one consumer of a demonstration.
func (c *demoConsumerCmd) Run(s *terminal) error {
	return demo.Consume(s.ctx, c.Assignment, s.stdin, s.stdout)
}
