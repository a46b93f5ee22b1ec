package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// Fault is one thing that is wrong with a config, or worth a warning.
type Fault struct {
	File    string
	Line    int    // from 1; 0 where the whole file is meant
	Col     int    // from 1, in characters; 0 where the whole file is meant
	Key     string // path of the key, such as sensors[1].interval; "" at the root
	Message string
}

// String gives the fault as one line, "config.yaml:12: sensors[1].intervall: …".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all that is wrong with a config, sorted by line.
type Faults []Fault

// Error gives one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

func (fs Faults) sorted() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Key, b.Key))
	})
	return fs
}

// stands reports whether the file has the key or list item.
func (r *reader) stands(path string) bool {
	_, ok := r.places[path]
	return ok
}

// fault reports that the value of path is wrong, at the place of path or, where
// it does not stand in the file, of what it belongs to. It is silent where path
// or one of others, the keys that it was compared with, is unclear.
func (r *reader) fault(path string, others []string, format string, args ...any) {
	if r.unclear(path) || slices.ContainsFunc(others, r.unclear) {
		return
	}
	r.faultAt(r.placeOf(path), path, format, args...)
}

// unclear reports whether the value of path is not what the file meant: it, or
// what it is part of, has a fault already, or stands under a misspelt key.
func (r *reader) unclear(path string) bool {
	for ; path != ""; path = parent(path) {
		if r.faulty[path] || r.meant[path] && !r.stands(path) {
			return true
		}
	}
	return false
}

// faultAt reports a fault whose place is known.
func (r *reader) faultAt(at place, path, format string, args ...any) {
	r.faulty[path] = true
	r.report(at, path, format, args...)
}

// report reports a fault that leaves the value of path clear.
func (r *reader) report(at place, path, format string, args ...any) {
	r.faults = append(r.faults, Fault{r.file, at.line, at.col, path, printable(fmt.Sprintf(format, args...))})
}

func (r *reader) warn(path, format string, args ...any) {
	at := r.placeOf(path)
	r.warnings = append(r.warnings, Fault{r.file, at.line, at.col, path, printable(fmt.Sprintf(format, args...))})
}

// refuse reports a fault of the whole file.
func (r *reader) refuse(at place, format string, args ...any) *ast.MappingNode {
	r.faultAt(at, "", format, args...)
	return nil
}

// placeOf gives where path stands, or the nearest thing around it.
func (r *reader) placeOf(path string) place {
	for ; path != ""; path = parent(path) {
		if at, ok := r.places[path]; ok {
			return at
		}
	}
	return place{}
}

// parent gives the path of what path is part of, "" for the root.
func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// join gives the path of a key below path.
func join(path, key string) string {
	key = printable(shorten(key))
	if path == "" {
		return key
	}
	return path + "." + key
}

// index gives the path of an item of the list at path.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// printable escapes what would leave the line or steer the terminal.
func printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
	}
	return b.String()
}

// shorten cuts a word of the file for a message.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
