package vessel

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"oxyd/sensors/oxygen"
)

var update = flag.Bool("update", false, "write the computed tables into docs/error-budget.md")

const (
	budgetFile  = "../../docs/error-budget.md"
	budgetBegin = "<!-- computed: go test ./sensors/vessel -run ErrorBudget -update -->\n"
	budgetEnd   = "<!-- end of what is computed -->\n"
)

// budget is a table of what errors cost at some contents of one vessel.
type budget struct {
	head []string
	at   []float64 // kg
	rows []cost
}

// cost is one row: the content with the error in it, at each content.
type cost struct {
	name string
	with []float64
}

// percent is what the row costs in column i, in percent of the content.
func (b budget) percent(name string, i int) float64 {
	for _, r := range b.rows {
		if r.name == name {
			return math.Abs(r.with[i]/b.at[i]-1) * 100
		}
	}
	return math.NaN()
}

// markdown is the table as it stands in the document.
func (b budget) markdown() string {
	var s strings.Builder
	line := func(first string, cells []string) {
		fmt.Fprintf(&s, "| %s | %s |\n", first, strings.Join(cells, " | "))
	}
	line("", b.head)
	line("---", strings.Split(strings.Repeat("---: ", len(b.head)-1)+"---:", " "))
	var cells []string
	for _, kg := range b.at {
		cells = append(cells, fmt.Sprintf("%.3f kg", kg))
	}
	line("content", cells)
	for _, r := range b.rows {
		cells = nil
		for i, with := range r.with {
			cells = append(cells, fmt.Sprintf("%s g, %.2f %%", grams(with-b.at[i]), b.percent(r.name, i)))
		}
		line(r.name, cells)
	}
	return s.String()
}

// grams shows a difference in kg, of three figures at most.
func grams(kg float64) string {
	g := math.Abs(kg) / gram
	switch {
	case g >= 99.95:
		return fmt.Sprintf("%.0f", g)
	case g >= 9.995:
		return fmt.Sprintf("%.1f", g)
	}
	return fmt.Sprintf("%.2f", g)
}

// The names that the judgement below refers to.
const (
	kelvin     = "gas temperature, 1 K"
	transducer = "transducer, 0.25 % of 250 bar"
	converter  = "one step of an ADS1115 (187.5 µV; 0.5 V to 4.5 V)"
	forgotten  = "ambient pressure forgotten"
	nominal    = "volume, 1 % (nominal, not stamped)"
	impure     = "purity of 99.5 % taken for 100 %"
	equation   = "equation of state, 0.1 %"
	coldLiquid = "liquid still as cold as at 1 atm"
	unmeasured = "vessel pressure taken for 1 atm"
)

// gasBudget is of a cylinder of 50 L at 15 °C, pressures absolute.
func gasBudget(t *testing.T) budget {
	b := budget{head: []string{"200 bar", "100 bar", "20 bar"}}
	pressures := []float64{200 * bar, 100 * bar, 20 * bar}
	const volume, temperature = 50 * litre, 273.15 + 15
	mass := func(o GasOptions, p, t1 float64) float64 { return contentOf(t, newGas(t, o), p, t1).Total }
	plain := GasOptions{Volume: volume, Purity: 1}
	for _, p := range pressures {
		b.at = append(b.at, mass(plain, p, temperature))
	}
	row := func(name string, f func(p, kg float64) float64) {
		r := cost{name: name}
		for i, p := range pressures {
			r.with = append(r.with, f(p, b.at[i]))
		}
		b.rows = append(b.rows, r)
	}
	pressureOff := func(name string, by float64) {
		row(name, func(p, _ float64) float64 { return mass(plain, p-by, temperature) })
	}
	row(kelvin, func(p, _ float64) float64 { return mass(plain, p, temperature+1) })
	row("no temperature sensor: 20 K", func(p, _ float64) float64 { return mass(plain, p, temperature+20) })
	pressureOff(transducer, 0.0025*250*bar)
	pressureOff("transducer, 1 % of 250 bar", 0.01*250*bar)
	pressureOff(converter, 187.5e-6/4.0*250*bar)
	pressureOff(forgotten, oxygen.Atmosphere)
	pressureOff("ambient pressure fixed, 30 hPa off", 3000)
	row(nominal, func(p, _ float64) float64 {
		return mass(GasOptions{Volume: 1.01 * volume, Purity: 1}, p, temperature)
	})
	row("shell growth of 0.35 % at 200 bar left out", func(p, _ float64) float64 {
		return mass(GasOptions{Volume: volume, Purity: 1, ShellGrowth: 0.0035}, p, temperature)
	})
	row(impure, func(p, _ float64) float64 { return mass(GasOptions{Volume: volume, Purity: 0.995}, p, temperature) })
	row(equation, func(_, kg float64) float64 { return 1.001 * kg })
	row("ideal gas in the place of the equation", func(p, _ float64) float64 {
		return volume * p * oxygen.MolarMass / (oxygen.GasConstant * temperature)
	})
	return b
}

// liquidBudget is of an upright dewar of 160 L at 3 bar absolute, its level told by
// the differential pressure, or by a gauge for the level itself.
func liquidBudget(t *testing.T, byLevel bool) budget {
	const vessel = 3 * bar
	b := budget{head: []string{"90 % full", "50 % full", "10 % full"}}
	levels := []float64{0.9, 0.5, 0.1}
	saturated := func(p float64) oxygen.Saturated {
		s, err := oxygen.Saturation(p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	phases := saturated(vessel)
	// read is the content by what the sensor shows of a level, of liquid of some density.
	read := func(o LOXOptions, liquid, level, off, p float64) float64 {
		l := newLOX(t, o)
		c, err := l.tank.Content(level+off, p)
		if !byLevel {
			c, err = l.Content((liquid-phases.Vapour)*StandardGravity*level+off, p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c.Total
	}
	plain := LOXOptions{StrappingOptions: dewar()}
	for _, h := range levels {
		b.at = append(b.at, read(plain, phases.Liquid, h, 0, vessel))
	}
	row := func(name string, f func(h, kg float64) float64) {
		r := cost{name: name}
		for i, h := range levels {
			r.with = append(r.with, f(h, b.at[i]))
		}
		b.rows = append(b.rows, r)
	}
	sensorOff := func(name string, off float64) {
		row(name, func(h, _ float64) float64 { return read(plain, phases.Liquid, h, off, vessel) })
	}
	pressureOff := func(name string, p float64) {
		row(name, func(h, _ float64) float64 { return read(plain, phases.Liquid, h, 0, p) })
	}
	if byLevel {
		sensorOff("level, 5 mm", 0.005)
	} else {
		sensorOff("transmitter, 0.25 % of 15 kPa", 0.0025*15e3)
		row("gravity, 0.3 %", func(h, _ float64) float64 {
			return read(LOXOptions{StrappingOptions: dewar(), Gravity: 1.003 * StandardGravity}, phases.Liquid, h, 0, vessel)
		})
	}
	pressureOff("vessel pressure, 0.1 bar", vessel-0.1*bar)
	pressureOff("vessel pressure gauge for absolute", vessel-oxygen.Atmosphere)
	pressureOff(unmeasured, oxygen.Atmosphere)
	row(coldLiquid, func(h, kg float64) float64 {
		// What is read, as a part of what is there: so that the percentage is of the reading's content.
		cold := saturated(oxygen.Atmosphere).Liquid
		there := cold*0.152*h + phases.Vapour*(0.160-0.152*h)
		return kg * read(plain, cold, h, 0, vessel) / there
	})
	row("gas above the liquid left out", func(h, kg float64) float64 { return kg - phases.Vapour*(0.160-0.152*h) })
	row("strapping table, 1 %", func(h, _ float64) float64 {
		o := dewar()
		o.Levels[1].Y *= 1.01
		return read(LOXOptions{StrappingOptions: o}, phases.Liquid, h, 0, vessel)
	})
	row(impure, func(_, kg float64) float64 { return 0.995 * kg })
	return b
}

// weighedBudget is of the cylinder of the gas on a scale of 100 kg.
func weighedBudget(t *testing.T, at []float64) budget {
	const tare = 60
	b := budget{head: []string{"200 bar", "100 bar", "20 bar"}, at: at}
	row := func(name string, f func(gross float64) float64, o WeighedOptions) {
		w, err := NewWeighed(o)
		if err != nil {
			t.Fatal(err)
		}
		r := cost{name: name}
		for _, kg := range at {
			c, err := w.Content(f(tare + kg))
			if err != nil {
				t.Fatal(err)
			}
			r.with = append(r.with, c.Total)
		}
		b.rows = append(b.rows, r)
	}
	plain := WeighedOptions{Tare: tare, Purity: 1}
	same := func(gross float64) float64 { return gross }
	row("load cell, 0.02 % of 100 kg", func(gross float64) float64 { return gross + 0.0002*100 }, plain)
	row("tare, 50 g", same, WeighedOptions{Tare: tare + 0.05, Purity: 1})
	row("not calibrated on site: gravity, 0.3 %", func(gross float64) float64 { return 1.003 * gross }, plain)
	row(impure, same, WeighedOptions{Tare: tare, Purity: 0.995})
	return b
}

func TestErrorBudgetIsWhatTheDocumentSays(t *testing.T) {
	gas := gasBudget(t)
	want := "\n### Cylinder of 50 L at 15 °C, pressure and temperature\n\n" + gas.markdown() +
		"\n### Upright dewar of 160 L at 3 bar, differential pressure\n\n" + liquidBudget(t, false).markdown() +
		"\n### The same dewar, level gauge\n\n" + liquidBudget(t, true).markdown() +
		"\n### The cylinder on a scale, tare 60 kg\n\n" + weighedBudget(t, gas.at).markdown() + "\n"
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(text), budgetBegin)
	got, tail, ok2 := strings.Cut(rest, budgetEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has not both marks, %q and %q", budgetFile, budgetBegin, budgetEnd)
	}
	if *update {
		if err := os.WriteFile(budgetFile, []byte(head+budgetBegin+want+budgetEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("line %d of the tables is\n%s\ncomputed is\n%s", i+1, g, w)
		}
	}
}

// What the document's sentences claim.
func TestErrorBudgetSentences(t *testing.T) {
	gas, byPressure, byLevel := gasBudget(t), liquidBudget(t, false), liquidBudget(t, true)
	full, low := 0, 2
	for _, c := range []struct {
		claim string
		holds bool
	}{
		{"full cylinder: the volume costs more than the kelvin, that more than the transducer",
			gas.percent(nominal, full) > gas.percent(kelvin, full) && gas.percent(kelvin, full) > gas.percent(transducer, full)},
		{"low cylinder: the transducer costs more than the volume and the kelvin together",
			gas.percent(transducer, low) > gas.percent(nominal, low)+gas.percent(kelvin, low)},
		{"the converter's step costs a fiftieth of the transducer", gas.percent(converter, full) < gas.percent(transducer, full)/50 && gas.percent(converter, low) < gas.percent(transducer, low)/50},
		{"ambient forgotten: ten times the part in a low cylinder",
			gas.percent(forgotten, low) > 9*gas.percent(forgotten, full)},
		{"the equation's own error is below the transducer's at every content",
			gas.percent(equation, 0) < gas.percent(transducer, 0) && gas.percent(equation, 1) < gas.percent(transducer, 1) && gas.percent(equation, 2) < gas.percent(transducer, 2)},
		{"cold liquid: about 5 % by level, nothing by differential pressure between straight walls",
			math.Abs(byLevel.percent(coldLiquid, 0)-5) < 0.5 && byPressure.percent(coldLiquid, 0) < 1e-6},
		{"pressure not measured: more than 5 % of a full dewar by level, under 1 % by differential pressure",
			byLevel.percent(unmeasured, full) > 5 && byPressure.percent(unmeasured, full) < 1},
		{"pressure not measured: of a dewar that is nearly empty, the gas is missed by differential pressure, 5 % and more",
			byPressure.percent(unmeasured, low) > 5},
	} {
		if !c.holds {
			t.Errorf("does not hold: %s", c.claim)
		}
	}
}
