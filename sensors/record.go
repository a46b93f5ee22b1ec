package sensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	if _, err := d.Token(); err != io.EOF { // More does not mind a bracket
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
// of another: an older one keeps its date in its name. A power cut, or a disk that is
// full, leaves the old record in its place or the new one, and nothing else there.
func (r *Record) Save(path string) error {
	if err := r.faults(); err != nil {
		return fmt.Errorf("calibration record: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	if len(text) >= maxRecordBytes {
		return fmt.Errorf("write calibration record: it would have more than %d bytes", maxRecordBytes)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	if err := writeSynced(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write calibration record: %w", err)
	}
	return nil
}

// writeSynced writes a file by way of another, with its directory synced. What stands
// there gets a second name before the new one takes the first: there is no instant
// without a record.
func writeSynced(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := errors.Join(keepAside(path), syncDir(path)); err != nil {
		return fmt.Errorf("keep the calibration before: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(path)
}

// syncDir makes the names beside a file durable.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// maxSameInstant bounds how many records of one instant are kept.
const maxSameInstant = 100

// keepAside gives the file at path, if there is one, a second name that nobody has: its
// date, and a number where that is taken. A file system without second names (FAT) gets
// a copy.
func keepAside(path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	aside := path + "." + old.ModTime().UTC().Format("20060102T150405.000000000")
	for n := range maxSameInstant {
		name := aside
		if n > 0 {
			name = fmt.Sprintf("%s-%d", aside, n)
		}
		err := os.Link(path, name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = copyNew(path, name)
		}
		if taken, statErr := os.Stat(name); err == nil || statErr == nil && os.SameFile(old, taken) {
			return nil // or it was kept before a power cut
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("%s and %d more have that name", aside, maxSameInstant-1)
}

// copyNew copies a file to a name that nobody has.
func copyNew(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
