// Command oxyd keeps the oxygen account of a base: it reads tank sensors,
// publishes over MQTT what they measure, and keeps the balance of each tank.
// What it does is described by `oxyd --help`; package internal/cli has one file
// for each command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"oxyd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
