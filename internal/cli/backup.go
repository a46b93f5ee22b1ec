package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"oxyd/ledger"
)

type backupCmd struct {
	configFlag
	File string `arg:"" help:"Where to; it must not exist."`
}

// Help is the long text of `oxyd backup --help`.
func (backupCmd) Help() string {
	return "The account goes on while it is copied. The copy is verified before it gets its name. To restore it: stop the daemon, put the copy in the place of ledger.bolt in data_dir, start the daemon; events since the copy are counted again when they come again, and not otherwise."
}

// Run copies the account of the running daemon.
func (c *backupCmd) Run(s *terminal) error {
	daemon, err := c.dial()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(c.File); err == nil {
		return &hinted{fmt.Errorf("%s exists", c.File), "name a new file: a backup replaces nothing"}
	}
	f, err := os.CreateTemp(filepath.Dir(c.File), ".oxyd-backup-*")
	if err != nil {
		return fmt.Errorf("make backup: %w", err)
	}
	defer os.Remove(f.Name()) // under its name it is no longer there
	if err := errors.Join(daemon.fetch(s.ctx, "/api/backup", f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make backup: %w", err)
	}
	v, err := ledger.Verify(f.Name())
	if err != nil {
		return fmt.Errorf("the copy is not sound: %w", err)
	}
	if err := os.Link(f.Name(), c.File); err != nil { // unlike a rename it replaces nothing
		return fmt.Errorf("name backup: %w", err)
	}
	return printVerified(s, c.File, &v)
}

// fetch copies the body of an answer, which may be large and take long.
func (c *client) fetch(ctx context.Context, path string, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://oxyd"+path, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	patient := &http.Client{Transport: c.http.Transport}
	answer, err := patient.Do(request)
	if err != nil {
		return c.whyNot(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answered %s", answer.Status)
	}
	_, err = io.Copy(w, answer.Body)
	return err
}

func printVerified(s *terminal, file string, v *ledger.Verified) error {
	t := newTable(s.stdout)
	t.row("file", file)
	t.row("sound", fmt.Sprintf("every row agrees with the %d of the journal", v.Rows))
	t.row("tanks", fmt.Sprint(v.Tanks))
	t.row("incarnation", fmt.Sprint(v.Incarnation))
	t.row("digest", v.Digest)
	return t.flush()
}
