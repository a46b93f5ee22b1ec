package sensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// RecordVersion is the form of a calibration record.
const RecordVersion = 1

// maxRecordBytes bounds a record's file.
const maxRecordBytes = 64 << 10

// Record is a calibration as it was made: when, of which channel, and the numbers that
// the chip gave, so that somebody can judge it years later.
type Record struct {
	Version int           `json:"v"`
	Channel string        `json:"channel"`
	Driver  string        `json:"driver"`
	Place   string        `json:"place"` // bus, address and input
	Signal  Signal        `json:"signal"`
	Over    string        `json:"over"` // the unit of At: "V", "part of the span", "counts"
	Unit    string        `json:"unit"` // the SI unit of Is: "Pa", "m", "kg", "K", "m3"
	MadeAt  time.Time     `json:"made_at"`
	Clock   string        `json:"clock"` // synced or unsynced: what MadeAt is worth
	By      string        `json:"by,omitempty"`
	Points  []RecordPoint `json:"points"`
}

// RecordPoint is one point of a record.
type RecordPoint struct {
	Steady
	Is   float64 `json:"is"`   // the quantity, in Unit
	Said string  `json:"said"` // as it was typed
}

// Scale makes the scale that the record is for.
func (r *Record) Scale() ([]ScalePoint, error) {
	list := make([]ScalePoint, 0, len(r.Points))
	for _, p := range r.Points {
		list = append(list, ScalePoint{At: p.At, Is: p.Is})
	}
	if _, err := NewScale(list); err != nil {
		return nil, err
	}
	return list, nil
}

// Over names the unit of where a sensor with the signal stands.
func (s Signal) Over() string {
	switch s {
	case SignalVoltage:
		return "V"
	case SignalRatiometric, SignalLoop:
		return "part of the span"
	case SignalBridge:
		return "counts"
	}
	return "SI"
}

// faults lists all that is wrong with a record.
func (r *Record) faults() error {
	var errs []error
	if r.Version != RecordVersion {
		errs = append(errs, fmt.Errorf("version %d is not %d", r.Version, RecordVersion))
	}
	if r.Channel == "" || r.Unit == "" || r.MadeAt.IsZero() {
		errs = append(errs, errors.New("channel, unit and date must stand"))
	}
	for _, p := range r.Points {
		if math.IsNaN(p.At+p.Is) || math.IsInf(p.At+p.Is, 0) {
			errs = append(errs, fmt.Errorf("point %v is not a number", p))
		}
	}
	_, err := r.Scale()
	return errors.Join(append(errs, err)...)
}

// ParseRecord reads a record strictly: what it does not know is an error.
func ParseRecord(text []byte) (*Record, error) {
	if len(text) > maxRecordBytes {
		return nil, fmt.Errorf("calibration record has more than %d bytes", maxRecordBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var r Record
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("read calibration record: %w", err)
	}
	if d.More() {
		return nil, errors.New("read calibration record: something follows it")
	}
	if err := r.faults(); err != nil {
		return nil, fmt.Errorf("calibration record: %w", err)
	}
	return &r, nil
}

// LoadRecord reads a record's file.
func LoadRecord(path string) (*Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read calibration record: %w", err)
	}
	r, err := ParseRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Save writes the record to a file that is whole or not there, and never in the place
// of another: an older one keeps its date in its name.
func (r *Record) Save(path string) error {
	if err := r.faults(); err != nil {
		return fmt.Errorf("calibration record: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	if old, err := os.Stat(path); err == nil {
		aside := path + "." + old.ModTime().UTC().Format("20060102T150405.000000000")
		if err := os.Rename(path, aside); err != nil {
			return fmt.Errorf("keep the calibration before: %w", err)
		}
	}
	return writeSynced(path, append(text, '\n'))
}

// writeSynced writes a file by way of another, with its directory synced: a power cut
// leaves it whole or absent.
func writeSynced(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	defer dir.Close()
	return dir.Sync()
}
