package sensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// goodRecord is a record of a transducer at two pressures.
func goodRecord() *Record {
	return &Record{Version: RecordVersion, Channel: "dock-1-pressure", Driver: DriverADS1115, Place: "/dev/i2c-1 0x48 AIN0",
		Signal: SignalVoltage, Over: SignalVoltage.Over(), Unit: "Pa", MadeAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Clock: "synced", By: "Ä. <Öl> & Co",
		Points: []RecordPoint{
			{Steady: Steady{Raw: 2667, At: 0.50006, Spread: 0.0002, Reads: 25}, Is: 0, Said: "0 bar"},
			{Steady: Steady{Raw: 20907, At: 3.92006, Spread: 0.0004, Reads: 25}, Is: 2.1375e7, Said: "213.75 bar"}}}
}

func TestRecordRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calibration", "dock-1.json")
	want := goodRecord()
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := LoadRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	scale, err := got.Scale()
	if diff := cmp.Diff([]ScalePoint{{0.50006, 0}, {3.92006, 2.1375e7}}, scale); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A record that is not wholly understood could be of something else.
func TestRecordIsReadStrictly(t *testing.T) {
	change := func(f func(*Record)) string {
		r := goodRecord()
		f(r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := change(func(*Record) {})
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":           {strings.Replace(good, `"place"`, `"palce"`, 1), "palce"},
		"unknown field of points": {strings.Replace(good, `"said"`, `"sayed"`, 1), "sayed"},
		"other version":           {change(func(r *Record) { r.Version = 2 }), "version 2"},
		"no version":              {strings.Replace(good, `"v":1,`, ``, 1), "version 0"},
		"no channel":              {change(func(r *Record) { r.Channel = "" }), "must stand"},
		"no unit":                 {change(func(r *Record) { r.Unit = "" }), "must stand"},
		"no date":                 {change(func(r *Record) { r.MadeAt = time.Time{} }), "must stand"},
		"one point":               {change(func(r *Record) { r.Points = r.Points[:1] }), "two are the least"},
		"twice one place":         {change(func(r *Record) { r.Points[1].At = r.Points[0].At }), "two calibration points"},
		"twice one quantity":      {change(func(r *Record) { r.Points[1].Is = r.Points[0].Is }), "neither rising nor falling"},
		"out of a float's range":  {strings.Replace(good, "0.50006", "1e999", 1), "calibration record"},
		"cut short":               {good[:len(good)-2], "unexpected EOF"},
		"something behind":        {good + "{}", "something follows"},
		"a bracket behind":        {good + "}", "something follows"},
		"garbage behind":          {good + "\x00", "something follows"},
		"no object":               {`[]`, "calibration record"},
		"empty":                   {``, "calibration record"},
		"too large":               {good + strings.Repeat(" ", maxRecordBytes), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRecord([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v, want an error with %q", r, err, c.want)
			}
		})
	}
	if _, err := ParseRecord([]byte(good + "\n\t ")); err != nil {
		t.Errorf("blanks behind it: %v", err)
	}
}

// A record that is wrong, too large or cannot be written leaves what is there as it is.
func TestRecordIsNotSavedWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := goodRecord().Save(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong, large := goodRecord(), goodRecord()
	wrong.Points = wrong.Points[:1]
	large.By = strings.Repeat("x", maxRecordBytes)
	for name, r := range map[string]*Record{"wrong": wrong, "large": large} {
		if err := r.Save(path); err == nil {
			t.Errorf("a %s record is saved", name)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the record before is changed: %v\n%s", err, after)
	}
	if names := namesIn(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

// A calibration is never lost to the next one, however soon that comes.
func TestRecordBeforeIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	made := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	for n, by := range []string{"first", "second", "third"} {
		r := goodRecord()
		r.By = by
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		if n < 2 { // one instant for two of them
			if err := os.Chtimes(path, made, made); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]string{}
	for _, name := range namesIn(t, dir) {
		r, err := LoadRecord(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = r.By
	}
	want := map[string]string{"r.json": "third", "r.json.20260301T120000.000000005": "first", "r.json.20260301T120000.000000005-1": "second"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A power cut between the two names of the old record leaves it in its place; the next
// calibration finds it kept already.
func TestRecordSurvivesACutBetweenItsNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := goodRecord().Save(path); err != nil {
		t.Fatal(err)
	}
	if err := keepAside(path); err != nil { // and then the power goes
		t.Fatal(err)
	}
	if _, err := LoadRecord(path); err != nil {
		t.Errorf("there is no record after a power cut: %v", err)
	}
	r := goodRecord()
	r.By = "second"
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, dir); len(names) != 2 {
		t.Errorf("got %q, want the record and the one before", names)
	}
	if got, err := LoadRecord(path); err != nil || got.By != "second" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Where a file cannot have two names it is copied, and nothing is overwritten.
func TestRecordIsCopiedWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(from, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyNew(from, to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(to); string(text) != "old" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := copyNew(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want a name that is taken", err)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// FuzzRecord: what is taken is saved as it is, and read again as it was.
func FuzzRecord(f *testing.F) {
	good, err := json.Marshal(goodRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("2026-03-01T12:00:00Z"), []byte("2026-03-01T12:00:00.123456789+13:45"), 1))
	f.Add(bytes.Replace(good, []byte("0.50006"), []byte("-5.0006e-300"), 1))
	f.Add([]byte(`{"v":1,"points":[{},{}]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		path := filepath.Join(dir, "r.json")
		_ = os.Remove(path)
		if err := r.Save(path); err != nil {
			if strings.Contains(err.Error(), "more than") { // spelt out it is longer
				return
			}
			t.Fatalf("what was read cannot be saved: %v", err)
		}
		again, err := LoadRecord(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Error(diff)
		}
	})
}
