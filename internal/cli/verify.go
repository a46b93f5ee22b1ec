package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"oxyd/internal/boltfile"
	"oxyd/ledger"
)

type verifyCmd struct {
	File string `arg:"" help:"A ledger.bolt that no daemon holds, such as a backup."`
	JSON bool   `help:"Print what was found as JSON."`
}

// Help is the long text of `oxyd verify --help`.
func (verifyCmd) Help() string {
	return "Checks the file's structure and the chain over its journal, and folds the journal anew: every balance, total, mark and watermark must be what the journal gives. Nothing is written to the file."
}

// Run verifies one account file.
func (c *verifyCmd) Run(s *terminal) error {
	v, err := ledger.Verify(c.File)
	switch {
	case errors.Is(err, boltfile.ErrLocked):
		return &hinted{err, "a daemon has it: verify a copy that oxyd backup makes"}
	case err != nil:
		return err
	case !c.JSON:
		return printVerified(s, c.File, &v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "%s\n", text)
	return err
}
