package cli

import (
	"encoding/json"

	"oxyd/sensors"
)

type sensorsScanCmd struct {
	JSON bool `help:"Print what was found as an array."`
}

// Help is the long text of `oxyd sensors scan --help`.
func (sensorsScanCmd) Help() string {
	return "Every I2C bus is asked at every address by reading one byte, and an ADS1115 by its config register; 1-Wire thermometers and what the kernel drives itself (IIO) are listed as the kernel knows them; of SPI the chip selects, of GPIO the chips. It needs no config. While a daemon reads the same chips a conversion of its may be disturbed, which it notices and reads again."
}

// Run shows what is there.
func (c *sensorsScanCmd) Run(s *terminal) error {
	list := sensors.Scan(s.ctx, nil)
	if c.JSON {
		e := json.NewEncoder(s.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	t := newTable(s.stdout)
	t.row("BUS", "PLACE", "WHAT")
	for _, f := range list {
		what := f.What
		if f.Error != "" {
			what = f.Error
		}
		t.row(f.Bus, orDash(f.Place), orDash(what))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, f := range list {
		if f.Hint != "" {
			if err := writeLine(s.stdout, "\n"+f.Bus+": "+f.Hint); err != nil {
				return err
			}
		}
	}
	return nil
}
