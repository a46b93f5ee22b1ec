// Package config reads the one file that decides what an oxyd process does, and
// says everything that is wrong with it in one run.
//
// It keeps one invariant: a Config that Load or Parse returns is complete and
// free of contradictions. Every default is filled in, every quantity had its
// unit, every bound was checked, and what could not be meant was refused with
// file, line and key. A key that the schema does not know is an error and never
// ignored: a misspelt limit must not become a limit that is off.
//
// It opens no file but the config itself (and the host's name and machine id
// for the default node name), reads no secret, touches no bus, store or
// network, and changes nothing in the process. Whether a bus exists or a
// broker answers is found out by those who use it.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// MaxFileBytes bounds a config file. A config of the largest allowed base is a
// tenth of it; what is larger is another file given by mistake.
const MaxFileBytes = 1 << 20

// Where a config is looked for when none is named (contract section 8).
const (
	LocalPath  = "./config.yaml"
	SystemPath = "/etc/oxyd/config.yaml"
)

// NotFoundError says that there is no config at any of the places tried.
type NotFoundError struct {
	Paths []string
}

// Error names every place that was tried.
func (e *NotFoundError) Error() string {
	return "find config: no file at " + strings.Join(e.Paths, " or ")
}

// Unwrap makes errors.Is(err, fs.ErrNotExist) hold.
func (e *NotFoundError) Unwrap() error { return fs.ErrNotExist }

// Hint tells what to do about it.
func (e *NotFoundError) Hint() string {
	return "copy config.example.yaml to config.yaml and edit it, or name a file with -c"
}

// Find gives the path of the config to load: explicit where it is not empty,
// else the first of LocalPath and SystemPath that exists. Its error is a
// *NotFoundError where there is no such file. A local file that exists but
// cannot be read is not passed over: Load will say so.
func Find(explicit string) (string, error) {
	if explicit != "" {
		return find(explicit)
	}
	return find(LocalPath, SystemPath)
}

func find(paths ...string) (string, error) {
	for _, path := range paths {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find config: %w", err)
		}
	}
	return "", &NotFoundError{Paths: paths}
}

// Load reads and checks the config at path. Its error is a Faults where the
// file could be read and its content is wrong.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{Paths: []string{path}}
	}
	if err != nil {
		return nil, fmt.Errorf("open config: %w", err)
	}
	defer f.Close()
	// One byte more than allowed tells "too large" from "just fits".
	raw, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return Parse(path, raw)
}

// Parse checks the text of a config. name stands for the file in faults. The
// error is nil or a Faults, sorted by line.
func Parse(name string, text []byte) (*Config, error) {
	return parse(name, text, thisHost())
}

func parse(name string, text []byte, h host) (*Config, error) {
	r := &reader{
		file:   name,
		places: make(map[string]place),
		faulty: make(map[string]bool),
		meant:  make(map[string]bool),
	}
	c := new(Config)
	c.setDefaults()
	if root := r.document(text); root != nil {
		r.decode(root, c)
		r.complete(c, h)
		r.validate(c)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	c.Warnings = r.warnings.sorted()
	return c, nil
}
