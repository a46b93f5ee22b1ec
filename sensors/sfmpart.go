package sensors

import "fmt"

// SFMPart is a flow meter of Sensirion's SFM series.
type SFMPart string

// The parts. The first five have the SF06 sensor chip, with temperature and status
// in each frame; the last two the older SF05, with the flow alone.
const (
	SFM3003 SFMPart = "SFM3003"
	SFM3013 SFMPart = "SFM3013"
	SFM3019 SFMPart = "SFM3019"
	SFM3119 SFMPart = "SFM3119"
	SFM4300 SFMPart = "SFM4300"
	SFM3000 SFMPart = "SFM3000"
	SFM3300 SFMPart = "SFM3300"
)

// Gas is what flows, which a part has one calibration each for.
type Gas string

// The gases.
const (
	GasOxygen Gas = "oxygen"
	GasAir    Gas = "air"
)

// FlowUnit is which litre a part counts in. The two differ by 7 %, and both are
// called standard litres by somebody.
type FlowUnit string

// The litres, both at 1013 hPa.
const (
	FlowSLM FlowUnit = "slm" // standard litres a minute, at 20 °C
	FlowNLM FlowUnit = "nlm" // norm litres a minute, at 0 °C
)

// density is the mass of a litre's gas in kilograms a cubic metre: oxygen by
// Schmidt and Wagner (Fluid Phase Equilibria 19 (1985) 175), dry air by CIPM-2007.
func density(g Gas, u FlowUnit) (kgPerM3 float64, ok bool) {
	switch {
	case g == GasOxygen && u == FlowSLM:
		return 1.3312, true
	case g == GasOxygen && u == FlowNLM:
		return 1.4290, true
	case g == GasAir && u == FlowSLM:
		return 1.2045, true
	case g == GasAir && u == FlowNLM:
		return 1.2930, true
	}
	return 0, false
}

// sfmSpec is what is known of a part beforehand.
type sfmSpec struct {
	addresses []uint16
	old       bool    // SF05
	family    uint32  // upper half of the product identifier; 0: any but the SFM4300's
	offset    int32   // of the raw flow
	scale     int32   // raw flow for a unit, for air; 0: not known, the part's counts
	oxygen    float64 // scale for oxygen as a multiple of that for air, of old parts
	low, high float64 // calibrated range, in units
}

// sfm4300Family is the upper half of an SFM4300's product identifier (its data
// sheet, "Product identifier").
const sfm4300Family = 0x0403

// sfmSpecOf is the spec of a part. Addresses and commands: Sensirion's drivers for the SF06
// (arduino-i2c-sfm-sf06, python-i2c-sfm-sf06); ranges: its selection guide for gas
// flow sensors (the SFM3013's is taken widely); offset and scale: the data sheets of
// the SFM3000, SFM3300 and SFM3019. Of the others what the part says itself counts.
//
// The SFM3300's factor for oxygen is that of the SFM3000, 142.8/140: the chip is the
// same, and the uncertainty below 0.5 % where the part has 3 %.
func sfmSpecOf(p SFMPart) (sfmSpec, error) {
	switch p {
	case SFM3003:
		return sfmSpec{addresses: []uint16{0x28, 0x2d}, low: -150, high: 300}, nil
	case SFM3013:
		return sfmSpec{addresses: []uint16{0x2f}, low: -300, high: 300}, nil
	case SFM3019:
		return sfmSpec{addresses: []uint16{0x2e}, offset: -24576, scale: 170, low: -10, high: 240}, nil
	case SFM3119:
		return sfmSpec{addresses: []uint16{0x29}, low: -10, high: 240}, nil
	case SFM4300:
		return sfmSpec{addresses: []uint16{0x2a, 0x2b, 0x2c, 0x2d}, family: sfm4300Family, low: 0, high: 50}, nil
	case SFM3000:
		return sfmSpec{addresses: []uint16{0x40}, old: true, offset: 32000, scale: 140, oxygen: 142.8 / 140, low: -200, high: 200}, nil
	case SFM3300:
		return sfmSpec{addresses: []uint16{0x40}, old: true, offset: 32768, scale: 120, oxygen: 142.8 / 140, low: -250, high: 250}, nil
	}
	return sfmSpec{}, fmt.Errorf("unknown part %q: there are %v", p,
		[]SFMPart{SFM3003, SFM3013, SFM3019, SFM3119, SFM4300, SFM3000, SFM3300})
}

// sfmRange is the calibrated range of a part whose product identifier is known: an
// SFM4300-20 ends at 20 units, the -50 at 50 (SFM4300 data sheet, product
// identifiers).
func (s sfmSpec) sfmRange(product uint32) (low, high float64) {
	switch product >> 8 {
	case 0x040301, 0x040302, 0x040303:
		return s.low, 20
	}
	return s.low, s.high
}
